"""One skill from its file.

Every problem is found at start: a gateway that runs has understood all its
skills. A skill is not opened by its own file (skills.lock opens it). A definition's digest is over the file's content as canonical JSON, with
${NAME} in endpoints as written, so that another port at the next start is no
other definition.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from memoryos_core.canonical import canonical_json, parse_json
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.adapters.skill_documents import DOCUMENT_BYTES_MAX, DocumentInvalid, read_document
from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.http_template import ENDPOINT, places
from memoryos_toolgateway.domain.names import check_skill_name
from memoryos_toolgateway.domain.schema_check import CompiledSchema
from memoryos_toolgateway.domain.schema_closing import close_objects
from memoryos_toolgateway.domain.schema_keywords import subschemas
from memoryos_toolgateway.domain.schema_lint import SchemaRefused, lint_schema
from memoryos_toolgateway.domain.skill import (
    NO_BODY,
    BuiltinConnector,
    EffectClass,
    Egress,
    HttpConnector,
    Lookup,
    Operation,
    RequestTemplate,
    ResourceMapping,
    Skill,
    UpstreamIdentity,
)
from memoryos_toolgateway.errors import SkillFileInvalid

_ENDPOINT_NAME: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PORT_MAX: Final = 65_535
_OWN_HEADERS: Final = frozenset(
    {"host", "connection", "content-length", "content-type", "transfer-encoding", "te", "upgrade", "expect", "cookie"}
    | {"authorization", "proxy-authorization", "accept", "accept-encoding", "user-agent", "traceparent", "via"}
)
"""Headers that say where a request goes, how it is read or who sends it."""


def load_skill(file: Path, endpoints: Mapping[str, str]) -> Skill:
    """Give the skill of one file, or raise SkillFileInvalid naming file, place and rule."""
    try:
        document = read_document(file)
        canonical = canonical_json(document)
    except (DocumentInvalid, InvalidField) as error:
        raise SkillFileInvalid(str(file), "", str(error)) from None
    for violation in _file_schema().violations(document):
        raise SkillFileInvalid(str(file), violation.pointer, f"{violation.rule}: expected {violation.expectation}")
    return _SkillFile(str(file), document, endpoints).skill(hashlib.sha256(canonical).hexdigest())


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
        parameters = document["parameters"]
        self._check_parameters(parameters)
        effect_class = EffectClass(document["effect_class"])
        connector = self._connector(document["connector"])
        self._check_effect(effect_class, connector)
        return Skill(
            name=document["name"],
            version=document["version"],
            description=document["description"],
            parameters_json=canonical_json(parameters),
            schema=CompiledSchema(close_objects(parameters)),
            permissions=tuple(sorted(document.get("permissions", []))),
            effect_class=effect_class,
            risk=document["risk"],
            timeout_s=float(document.get("timeout_s", 10)),
            attempts_max=document.get("attempts", 2),
            output_limit_bytes=document.get("output_limit_bytes", 16_384),
            sensitive_results=tuple(document.get("sensitive_results", [])),
            sensitive_arguments=tuple(sorted(marked(parameters, "x-sensitive"))),
            recipients=tuple(sorted(marked(parameters, "x-recipient"))),
            returns=tuple(sorted(document.get("returns", []))),
            intents=tuple(document.get("intents", [])),
            egress=_egress(document.get("egress"), effect_class),
            destructive=document.get("destructive", False),
            identity=UpstreamIdentity(document["connector"].get("identity", UpstreamIdentity.NONE)),
            opened=False,
            resource=self._resource(document.get("resource", {})),
            connector=connector,
            definition_digest=digest,
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

    def _check_header(self, name: str) -> None:
        if name.lower() in _OWN_HEADERS:
            raise self._refused("/connector/idempotency_header", f"{name} is not for keys")

    def _check_effect(self, effect_class: EffectClass, connector: HttpConnector | BuiltinConnector) -> None:
        if isinstance(connector, HttpConnector):
            if effect_class is EffectClass.KEYED and not connector.request.idempotency_header:
                raise self._refused("/connector", "effect class keyed needs an idempotency_header")
        else:
            needed = {Operation.MEMORY_READ: EffectClass.READ, Operation.MEMORY_WRITE: EffectClass.KEYED}
            if effect_class is not needed[connector.operation]:
                raise self._refused("/effect_class", f"{connector.operation} is {needed[connector.operation]}")

    def _connector(self, declared: dict[str, Any]) -> HttpConnector | BuiltinConnector:
        if declared["type"] == "builtin":
            return BuiltinConnector(operation=Operation(declared["operation"]))
        self._check_header(declared.get("idempotency_header", ""))
        return HttpConnector(request=self._request("/connector", declared))

    def _resource(self, declared: dict[str, Any]) -> ResourceMapping:
        lookup = declared.get("lookup")
        if declared.get("id") is not None:
            self._check_pointer("/resource/id", declared["id"])
        return ResourceMapping(
            type=declared.get("type", ""),
            id_pointer=declared.get("id"),
            lookup=lookup
            and Lookup(request=self._request("/resource/lookup", lookup), timeout_s=float(lookup.get("timeout_s", 2))),
        )

    def _request(self, where: str, declared: dict[str, Any]) -> RequestTemplate:
        body = declared.get("body", NO_BODY)
        mapped = [*declared.get("query", {}).values(), *(body.values() if isinstance(body, dict) else ())]
        try:
            in_path = places(declared["path"])
        except ValueError as error:
            raise self._refused(f"{where}/path", str(error)) from None
        for pointer in mapped:
            self._check_pointer(where, pointer)
        for pointer in in_path:
            self._check_pointer(f"{where}/path", pointer, required=True)
        return RequestTemplate(
            endpoint=self._endpoint(f"{where}/endpoint", declared["endpoint"]),
            scheme=declared.get("scheme", "http"),
            method=declared.get("method", "GET"),
            path=declared["path"],
            query=dict(declared.get("query", {})),
            body=body,
            idempotency_header=declared.get("idempotency_header", ""),
            response_bytes_max=declared.get("response_bytes_max", 262_144),
        )

    def _endpoint(self, where: str, declared: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] not in self.endpoints:
                raise self._refused(where, f"{match[1]} is not in the configuration tool-gateway.endpoints")
            return self.endpoints[match[1]]

        endpoint = _ENDPOINT_NAME.sub(value, declared)
        match = ENDPOINT.match(endpoint)
        if match is None or not 0 < int(match[1]) <= _PORT_MAX:
            raise self._refused(where, "is not host:port")
        return endpoint

    def _check_pointer(self, where: str, pointer: str, *, required: bool = False) -> None:
        """Refuse a pointer to an argument that the parameters do not declare (or do not require, for a path)."""
        here: Any = self.document["parameters"]
        for part in pointers.split(pointer):
            declared = here.get("properties", {}) if isinstance(here, dict) else {}
            if part not in declared:
                raise self._refused(where, f"{pointer} is no declared parameter")
            if required and part not in here.get("required", []):
                raise self._refused(where, f"{pointer} stands in the path, so it must be required")
            here = declared[part]
        if required and (not isinstance(here, dict) or here.get("type") not in ("string", "integer")):
            raise self._refused(where, f"{pointer} stands in the path, so its type is string or integer")


def marked(schema: Any, mark: str, parts: tuple[str, ...] = ()) -> Iterator[str]:
    """Give pointers to the declared values that are marked with this keyword; "*" is every element of a list."""
    if not isinstance(schema, dict):
        return
    if schema.get(mark):
        yield pointers.join(parts)
    for keyword, more, inner in subschemas(schema):
        if keyword == "properties":
            yield from marked(inner, mark, (*parts, more[1]))
        elif keyword in ("items", "prefixItems", "contains"):
            yield from marked(inner, mark, (*parts, "*"))


def _egress(declared: str | None, effect_class: EffectClass) -> Egress:
    """Give what the file says; what is not said is the worst that it can be."""
    if declared is not None:
        return Egress(declared)
    return Egress.NONE if effect_class is EffectClass.READ else Egress.EXTERNAL
