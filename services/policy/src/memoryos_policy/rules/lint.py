"""What `opa check --strict` lets pass and this product does not: rules that a missing field makes true.

Rego says nothing of what is absent: `not input.args.blocked` is true when the field is missing, and
`not startswith(input.args.path, "/tmp")` is *not* true when it is. The first must never grant, the second must
never deny. Names of skills and the form of results are checked with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

GRANTING: Final = frozenset({"allow", "visible"})
FINDING_SETS: Final = frozenset({"allow", "deny", "manual_review", "obligations"})
"""Names that a skill's rules give; each is a set of objects."""
_EQUALITY: Final = frozenset({"equal", "eq"})
"""`not input.x == 1` is true when the field is missing, as `not input.x` is; every other call is not."""
_KEYS: Final = {
    "allow": {"code", "text"},
    "deny": {"code", "text"},
    "manual_review": {"code", "text", "approval"},
}


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One fault of a bundle. `file` is relative to it, `line` counts from 1, 0 where no line is at fault.

    `mend` is the sentence that says what to write instead.
    """

    file: str
    line: int
    rule: str
    text: str
    mend: str


def lint_module(file: str, module: Mapping[str, Any], known_skills: frozenset[str] | None) -> Iterator[Finding]:
    """Give the faults of one file from OPA's syntax tree with locations; no known skills, no check of names."""
    package = _package(module)
    skill = package[2] if package[:2] == ("memoryos", "skills") and len(package) > 2 else None
    if skill is not None and known_skills is not None and skill not in known_skills:
        yield Finding(
            file,
            int(module["package"]["location"]["row"]),
            "unknown-skill",
            f"no skill is called {skill!r}",
            "name the package for a skill that is registered, or register the skill first",
        )
    for rule in module.get("rules") or ():
        yield from _rule(file, rule, skill is not None, package)
        if known_skills is not None:
            yield from _skill_names(file, rule, known_skills)


def _rule(file: str, rule: Mapping[str, Any], of_skill: bool, package: tuple[str, ...]) -> Iterator[Finding]:
    head, name = rule["head"], _name(rule["head"])
    for one in _chain(rule):
        for expression in _expressions(one.get("body") or ()):
            if not expression.get("negated"):
                continue
            line = int(expression["location"]["row"])
            terms = expression["terms"]
            compared = isinstance(terms, list) and _call_name(terms[0]) in _EQUALITY
            if isinstance(terms, list) and not compared and any(_reads_input(argument) for argument in terms[1:]):
                yield Finding(
                    file,
                    line,
                    "negated-call",
                    "a negated call on a field of the input says nothing when the field is missing",
                    "give the condition a name that is written positively, `ok if f(input.x)`, and ask for `not ok`",
                )
            elif name in GRANTING and _reads_input(terms):
                yield Finding(
                    file,
                    line,
                    "grant-by-absence",
                    f"{name} holds when a field of the input is missing",
                    "state what must be there: compare the field with the value that grants",
                )
    if of_skill and name in FINDING_SETS:
        yield from _set_of_objects(file, head, name)
    if package == ("memoryos", "main") and name == "decision" and rule.get("default"):
        yield from _default_object(file, head)


def _set_of_objects(file: str, head: Mapping[str, Any], name: str) -> Iterator[Finding]:
    line = int(head["location"]["row"])
    key = head.get("key")
    if key is None:
        yield Finding(
            file,
            line,
            "not-a-set",
            f"{name} is one value and not a set",
            f'write `{name} contains {{"code": …, "text": …}} if …`',
        )
    elif key.get("type") == "object" and name in _KEYS:
        keys = {pair[0].get("value") for pair in key["value"]}
        if keys != _KEYS[name]:
            yield Finding(
                file,
                line,
                "result-form",
                f"{name} has the keys {', '.join(sorted(map(str, keys)))}",
                f"give it exactly {', '.join(sorted(_KEYS[name]))}",
            )
    elif key.get("type") not in {"object", "var", "call", "ref"}:
        yield Finding(
            file,
            line,
            "result-form",
            f"{name} contains a {key.get('type')} and no object",
            f"give it an object with {', '.join(sorted(_KEYS.get(name, {'kind'})))}",
        )


def _default_object(file: str, head: Mapping[str, Any]) -> Iterator[Finding]:
    value = head.get("value") or {}
    decision = {pair[0].get("value"): pair[1].get("value") for pair in value.get("value", ())} if _object(value) else {}
    if decision.get("decision") != "deny":
        yield Finding(
            file,
            int(head["location"]["row"]),
            "default-deny",
            "the default decision is no deny object",
            'write `default decision := {"decision": "deny", …}` with every key of the result',
        )


def _object(value: Mapping[str, Any]) -> bool:
    return value.get("type") == "object"


def _skill_names(file: str, rule: Mapping[str, Any], known: frozenset[str]) -> Iterator[Finding]:
    """Give comparisons of input.action.skill with a name that no skill has."""
    for one in _chain(rule):
        for expression in _expressions(one.get("body") or ()):
            terms = expression["terms"]
            if not isinstance(terms, list) or len(terms) != 3 or _call_name(terms[0]) not in _EQUALITY:
                continue
            left, right = terms[1:]
            for reference, literal in ((left, right), (right, left)):
                is_name = literal.get("type") == "string" and literal["value"] not in known
                if is_name and _path(reference) == ("input", "action", "skill"):
                    yield Finding(
                        file,
                        int(expression["location"]["row"]),
                        "unknown-skill",
                        f"no skill is called {literal['value']!r}",
                        "compare with the name of a skill that is registered",
                    )


def _chain(rule: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Give a rule and its else branches."""
    here: Mapping[str, Any] | None = rule
    while here is not None:
        yield here
        here = here.get("else")


def _expressions(body: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Give the expressions of a body, those inside of `every` and comprehensions, too."""
    for expression in body:
        if "location" in expression and "terms" in expression:
            yield expression
        yield from _inner(expression.get("terms"))


def _inner(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if isinstance(value.get("body"), list):
            yield from _expressions(value["body"])
        for key, inner in value.items():
            if key not in {"body", "location"}:
                yield from _inner(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _inner(inner)


def _reads_input(term: Any) -> bool:
    """Tell whether a term is, or holds, a reference into the input document."""
    if isinstance(term, Mapping):
        if term.get("type") == "ref" and _path(term)[:1] == ("input",):
            return True
        return any(_reads_input(inner) for key, inner in term.items() if key != "location")
    return isinstance(term, list) and any(_reads_input(inner) for inner in term)


def _path(term: Mapping[str, Any]) -> tuple[str, ...]:
    parts = term.get("value")
    if term.get("type") != "ref" or not isinstance(parts, list):
        return ()
    return tuple(str(part.get("value")) for part in parts)


def _call_name(term: Mapping[str, Any]) -> str:
    return ".".join(_path(term))


def _name(head: Mapping[str, Any]) -> str:
    reference = head.get("ref") or ()
    return str(reference[0].get("value")) if reference else str(head.get("name", ""))


def _package(module: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(part["value"]) for part in module["package"]["path"][1:])
