"""One skill from its file.

Every problem is found at start: a gateway that runs has understood all its
skills. A skill is not opened by its own file (skills.lock opens it). A
definition's digest is over the file's content as canonical JSON (and over its
files of values), with ${NAME} in endpoints as written, so that another port at
the next start is no other definition.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from memoryos_core.canonical import canonical_json, parse_json
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.adapters.skill_connectors import ConnectorReader
from memoryos_toolgateway.adapters.skill_documents import DOCUMENT_BYTES_MAX, DocumentInvalid, line_of, read_document
from memoryos_toolgateway.adapters.skill_endings import fallback_of, reconciliation_of
from memoryos_toolgateway.adapters.skill_rules import files_digest, rules_of
from memoryos_toolgateway.domain.marks import MarkOutOfReach, marked
from memoryos_toolgateway.domain.names import check_skill_name
from memoryos_toolgateway.domain.schema_check import CompiledSchema
from memoryos_toolgateway.domain.schema_closing import close_objects
from memoryos_toolgateway.domain.schema_dialects import modern
from memoryos_toolgateway.domain.schema_lint import SchemaRefused, lint_schema
from memoryos_toolgateway.domain.skill import EffectClass, Egress, Skill, UpstreamIdentity
from memoryos_toolgateway.errors import SkillFileInvalid


def load_skill(file: Path, endpoints: Mapping[str, str]) -> Skill:
    """Give the skill of one file, or raise SkillFileInvalid naming file, line, place and rule."""
    try:
        return _load(file, endpoints)
    except SkillFileInvalid as error:
        raise error.on_line(line_of(file, error.pointer)) from None


def _load(file: Path, endpoints: Mapping[str, str]) -> Skill:
    try:
        document = read_document(file)
        canonical = canonical_json(document)
    except (DocumentInvalid, InvalidField) as error:
        raise SkillFileInvalid(str(file), "", str(error)) from None
    for violation in _file_schema().violations(document):
        raise SkillFileInvalid(str(file), violation.pointer, f"{violation.rule}: expected {violation.expectation}")
    files = files_digest(file, document)
    named = canonical_json([document, files]) if files else canonical
    return _SkillFile(str(file), document, endpoints).skill(hashlib.sha256(named).hexdigest())


@functools.cache
def _file_schema() -> CompiledSchema:
    raw = resources.files("memoryos_toolgateway").joinpath("skill.schema.json").read_bytes()
    schema = parse_json(raw, max_bytes=DOCUMENT_BYTES_MAX)
    lint_schema(schema)
    return CompiledSchema(schema)


@dataclass(frozen=True, slots=True)
class _SkillFile:
    """A document that matches skill.schema.json, on its way to a Skill."""

    file: str
    document: dict[str, Any]
    endpoints: Mapping[str, str]

    def skill(self, digest: str) -> Skill:
        document = self.document
        wrong = check_skill_name(document["name"])
        if wrong:
            raise self._refused("/name", wrong)
        parameters = modern(document["parameters"])
        self._check_parameters(parameters)
        rules = rules_of(Path(self.file), document, parameters)
        effect_class = EffectClass(document["effect_class"])
        parts = ConnectorReader(self.file, document, self.endpoints)
        connector = parts.connector(effect_class)
        return Skill(
            name=document["name"],
            version=document["version"],
            description=document["description"],
            parameters_json=canonical_json(parameters),
            schema=CompiledSchema(close_objects(parameters), rules=rules),
            permissions=tuple(sorted(document.get("permissions", []))),
            effect_class=effect_class,
            risk=document["risk"],
            timeout_s=float(document.get("timeout_s", 10)),
            attempts_max=document.get("attempts", 2),
            output_limit_bytes=document.get("output_limit_bytes", 16_384),
            sensitive_results=tuple(document.get("sensitive_results", [])),
            sensitive_arguments=self._marked(parameters, "x-sensitive"),
            recipients=self._marked(parameters, "x-recipient"),
            returns=tuple(sorted(document.get("returns", []))),
            intents=tuple(document.get("intents", [])),
            egress=_egress(document.get("egress"), effect_class),
            destructive=document.get("destructive", False),
            identity=UpstreamIdentity(document["connector"].get("identity", UpstreamIdentity.NONE)),
            opened=False,
            resource=parts.resource(),
            connector=connector,
            definition_digest=digest,
            fallback=fallback_of(self.file, document, effect_class),
            reconciliation=reconciliation_of(self.file, document, effect_class, self.endpoints),
            system=". ".join(document.get("system", {}).values()),
        )

    def _refused(self, pointer: str, text: str) -> SkillFileInvalid:
        return SkillFileInvalid(self.file, pointer, text)

    def _check_parameters(self, parameters: dict[str, Any]) -> None:
        if parameters.get("type") != "object":
            raise self._refused("/parameters", "arguments are one object: type is object")
        try:
            lint_schema(parameters)
        except SchemaRefused as error:
            raise self._refused(f"/parameters{error.pointer}", str(error)) from None

    def _marked(self, parameters: dict[str, Any], mark: str) -> tuple[str, ...]:
        try:
            return marked(parameters, mark)
        except MarkOutOfReach as error:
            raise self._refused(f"/parameters{error.pointer}", str(error)) from None


def _egress(declared: str | None, effect_class: EffectClass) -> Egress:
    """Give what the file says; what is not said is the worst that it can be."""
    if declared is not None:
        return Egress(declared)
    return Egress.NONE if effect_class is EffectClass.READ else Egress.EXTERNAL
