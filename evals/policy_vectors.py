"""Vectors of public policy collections as questions to Decide: who, which skill, on what, and what must come out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

READ: Final = "READ"
WRITE: Final = "NON_IDEMPOTENT"
_NAME: Final = re.compile(r"[^\w.\-]")
_CONDITION: Final = re.compile(r"\s*(\S+)\s*==\s*(\S+)\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One question and the effect that must come out: allow or deny."""

    collection: str
    id: str
    user: str
    groups: tuple[str, ...] = ()
    skill: str
    effect_class: str
    resource_type: str = ""
    resource_id: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """The vectors of one collection and the data documents that its policy needs, by path below memoryos/."""

    name: str
    vectors: tuple[Vector, ...]
    documents: Mapping[str, Any] = field(default_factory=dict)


def collections(folder: Path) -> Iterator[Collection]:
    """Give the collections that are present in a folder laid out like the public data's policy/."""
    if (path := folder / "authzen.json").is_file():
        yield Collection(name="authzen", vectors=tuple(_authzen(json.loads(path.read_bytes()))))
    if (path := folder / "cerbos_tutorial.json").is_file():
        yield _cerbos(json.loads(path.read_bytes()))
    for path in sorted(folder.glob("taubench_*_ownership.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        yield Collection(name="taubench", vectors=tuple(_taubench(rows)))


def _authzen(data: Mapping[str, Any]) -> Iterator[Vector]:
    for scenario in ("todo", "api_gateway"):
        cases = data.get(scenario, {})
        for number, case in enumerate(cases.get("evaluation", ())):
            yield _authzen_vector(data, f"{scenario}-{number}", case["request"], case["expected"])
        for number, case in enumerate(cases.get("evaluations", ())):
            common = {key: value for key, value in case["request"].items() if key != "evaluations"}
            for part, (one, expected) in enumerate(
                zip(case["request"]["evaluations"], case["expected"], strict=True), start=1
            ):
                name = f"{scenario}-batch-{number}-{part}"
                yield _authzen_vector(data, name, {**common, **one}, expected["decision"])


def _authzen_vector(data: Mapping[str, Any], name: str, request: Mapping[str, Any], expected: bool) -> Vector:
    subject = data["subjects"].get(request["subject"]["id"], {"user": "nobody", "roles": []})
    resource = request.get("resource", {})
    return Vector(
        collection="authzen",
        id=name,
        user=subject["user"],
        groups=tuple(subject["roles"]),
        skill=f"authzen.{request['action']['name']}",
        effect_class=READ if request["action"]["name"] in {"can_read_user", "can_read_todos", "GET"} else WRITE,
        resource_type=str(resource.get("type", "")),
        resource_id=str(resource.get("id", "")),
        properties=resource.get("properties", {}),
        expected="allow" if expected else "deny",
    )


def _taubench(rows: list[dict[str, Any]]) -> Iterator[Vector]:
    for row in rows:
        owner = row.get("resource_owner")
        yield Vector(
            collection="taubench",
            id=row["id"],
            user=row["subject"],
            skill=f"taubench.{row['tool']}",
            effect_class=WRITE if row["write"] else READ,
            resource_type="none" if owner is None else "record",
            resource_id="" if owner is None else "looked-up",
            properties={} if owner is None else {"owner": owner},
            arguments=row["arguments"],
            expected=row["expect"],
        )


def _cerbos(steps: list[dict[str, Any]]) -> Collection:
    policies: dict[str, dict[str, list[Any]]] = {}
    roles: dict[str, dict[str, Any]] = {}
    vectors: list[Vector] = []
    for entry in steps:
        step = _NAME.sub("-", str(entry["step"])).replace(".", "-")
        policies[step], roles[step] = {}, {}
        for text in entry["policies_yaml"].values():
            for document in yaml.safe_load_all(text):
                if document and "resourcePolicy" in document:
                    policy = document["resourcePolicy"]
                    policies[step].setdefault(policy["resource"], []).extend(map(_rule, policy["rules"]))
                elif document and "derivedRoles" in document:
                    for one in document["derivedRoles"]["definitions"]:
                        derived = {"parents": one["parentRoles"], "condition": _condition(one.get("condition"))}
                        roles[step][one["name"]] = derived
        for number, vector in enumerate(entry["vectors"]):
            vectors.append(_cerbos_vector(step, number, vector))
    documents = {"cases/cerbos_policies": policies, "cases/cerbos_roles": roles}
    return Collection(name="cerbos", vectors=tuple(vectors), documents=documents)


def _cerbos_vector(step: str, number: int, vector: Mapping[str, Any]) -> Vector:
    resource = vector["resource"]
    return Vector(
        collection="cerbos",
        id=f"{step}-{number}",
        user=vector["principal"]["id"],
        groups=tuple(vector["principal"]["roles"]),
        skill=f"cerbos.{step}.{resource['kind']}.{vector['action']}",
        effect_class=READ if vector["action"] == "read" else WRITE,
        resource_type=resource["kind"],
        resource_id=str(resource.get("id", "")),
        properties=resource.get("attr", {}),
        expected="allow" if vector["expect"] == "EFFECT_ALLOW" else "deny",
    )


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    if rule["effect"] != "EFFECT_ALLOW":
        raise ValueError(f"a rule with {rule['effect']} is not translated")
    return {
        "actions": rule["actions"],
        "roles": rule.get("roles", []),
        "derived_roles": rule.get("derivedRoles", []),
        "condition": _condition(rule.get("condition")),
    }


def _condition(condition: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Give an equality of two operands; ValueError for what is not translated, so that it is not passed over."""
    if condition is None:
        return None
    found = _CONDITION.match(str(condition["match"].get("expr", "")))
    if found is None:
        raise ValueError(f"the condition {condition['match']!r} is not translated")
    return {"left": _operand(found[1]), "right": _operand(found[2])}


def _operand(text: str) -> dict[str, Any]:
    for prefix in ("request.resource.attr.", "R.attr."):
        if text.startswith(prefix):
            return {"property": text.removeprefix(prefix)}
    if text in {"request.resource.id", "R.id"}:
        return {"is": "resource_id"}
    if text in {"request.principal.id", "P.id"}:
        return {"is": "principal_id"}
    try:
        return {"literal": json.loads(text)}
    except ValueError:
        raise ValueError(f"the operand {text!r} is not translated") from None
