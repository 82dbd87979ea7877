"""How a skill file says that its calls are carried out: requests, mails, credentials, and what they are done to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.addresses import AddressRefused, parse_endpoint
from memoryos_toolgateway.domain.http_template import body_places, header_places, places, secret_names, secrets_of
from memoryos_toolgateway.domain.mail import is_address
from memoryos_toolgateway.domain.marks import marked
from memoryos_toolgateway.domain.schema_check import CompiledSchema
from memoryos_toolgateway.domain.schema_lint import SchemaRefused, lint_schema
from memoryos_toolgateway.domain.skill import (
    NO_BODY,
    BuiltinConnector,
    EffectClass,
    Exchange,
    HttpConnector,
    Lookup,
    Operation,
    RequestTemplate,
    ResourceMapping,
    ResponseMapping,
    SmtpConnector,
    UpstreamIdentity,
)
from memoryos_toolgateway.errors import SkillFileInvalid

Connector = HttpConnector | BuiltinConnector | SmtpConnector
_ENDPOINT_NAME: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OWN_HEADERS: Final = frozenset(
    {"host", "connection", "keep-alive", "content-length", "content-type", "transfer-encoding", "te", "trailer"}
    | {"upgrade", "expect", "cookie", "proxy-authorization", "proxy-connection", "accept-encoding", "user-agent"}
    | {"traceparent", "tracestate", "via", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"}
)
"""Headers that say where a request goes, how it is read or who sends it."""
_AUTHORIZATION: Final = "authorization"
_NO_KEYS: Final = _OWN_HEADERS | {_AUTHORIZATION, "accept"}


@dataclass(frozen=True, slots=True)
class ConnectorReader:
    """The part of a document that says how, already of the form of skill.schema.json."""

    file: str
    document: dict[str, Any]
    endpoints: Mapping[str, str]

    def connector(self, effect_class: EffectClass) -> Connector:
        """Give the connector, or raise SkillFileInvalid."""
        declared = self.document["connector"]
        if declared["type"] == "builtin":
            return self._builtin(declared, effect_class)
        if declared["type"] == "smtp":
            return self._smtp(declared, effect_class)
        header = declared.get("idempotency_header", "")
        if header.lower() in _NO_KEYS:
            raise self._refused("/connector/idempotency_header", f"{header} is not for keys")
        if effect_class is EffectClass.KEYED and not header:
            raise self._refused("/connector", "effect class keyed needs an idempotency_header")
        request = self._request("/connector", declared)
        exchange = self._exchange("/connector", declared)
        self._check_identity("/connector", declared, bool(secret_names(request)))
        return HttpConnector(request=request, response=self._response(declared.get("response", {})), exchange=exchange)

    def resource(self) -> ResourceMapping:
        """Give what the call is done to, or raise SkillFileInvalid."""
        declared = self.document.get("resource", {})
        if declared.get("id") is not None:
            self._check_pointer("/resource/id", declared["id"])
        found = declared.get("lookup")
        lookup = None if found is None else self.lookup("/resource/lookup", found)
        return ResourceMapping(type=declared.get("type", ""), id_pointer=declared.get("id"), lookup=lookup)

    def lookup(self, where: str, declared: dict[str, Any]) -> Lookup:
        """Give a request that only asks, or raise SkillFileInvalid."""
        request = self._request(where, declared)
        self._check_identity(where, declared, bool(secret_names(request)))
        return Lookup(
            request=request, timeout_s=float(declared.get("timeout_s", 2)), exchange=self._exchange(where, declared)
        )

    def _refused(self, pointer: str, text: str) -> SkillFileInvalid:
        return SkillFileInvalid(self.file, pointer, text)

    def _builtin(self, declared: dict[str, Any], effect_class: EffectClass) -> BuiltinConnector:
        operation = Operation(declared["operation"])
        needed = {Operation.MEMORY_READ: EffectClass.READ, Operation.MEMORY_WRITE: EffectClass.KEYED}[operation]
        if effect_class is not needed:
            raise self._refused("/effect_class", f"{operation} is {needed}")
        return BuiltinConnector(operation=operation)

    def _smtp(self, declared: dict[str, Any], effect_class: EffectClass) -> SmtpConnector:
        if effect_class is not EffectClass.NON_IDEMPOTENT:
            raise self._refused("/effect_class", "a mail that is sent twice arrives twice: it is non_idempotent")
        marks = set(marked(self.document["parameters"], "x-recipient"))
        for name in ("to", "cc", "subject", "body"):
            if name not in declared:
                continue
            self._check_pointer(f"/connector/{name}", declared[name])
            if name in ("to", "cc") and not marks & {declared[name], f"{declared[name]}/*"}:
                raise self._refused(f"/connector/{name}", f"{declared[name]} receives the mail: mark it x-recipient")
        if not is_address(declared["from"]):
            raise self._refused("/connector/from", "is no mail address")
        secrets = secrets_of(declared.get("password", ""))
        if bool(declared.get("username")) is not bool(secrets) or (secrets and declared["tls"] == "none"):
            raise self._refused("/connector/password", "a login is username, password: ${secret:NAME} and tls")
        self._check_identity("/connector", declared, bool(secrets))
        return SmtpConnector(
            endpoint=self._endpoint("/connector/endpoint", declared["endpoint"]),
            tls=declared["tls"],
            sender=declared["from"],
            to=declared["to"],
            cc=declared.get("cc"),
            subject=declared["subject"],
            body=declared["body"],
            username=declared.get("username", ""),
            password_secret=secrets[0] if secrets else "",
        )

    def _request(self, where: str, declared: dict[str, Any]) -> RequestTemplate:
        try:
            in_path = places(declared["path"])
        except ValueError as error:
            raise self._refused(f"{where}/path", str(error)) from None
        for pointer in in_path:
            self._check_pointer(f"{where}/path", pointer, required=True)
        for pointer in self._mapped(where, declared):
            self._check_pointer(where, pointer)
        method = declared.get("method", "GET")
        if declared.get("redirects") and method != "GET":
            raise self._refused(f"{where}/redirects", "only GET follows redirects")
        return RequestTemplate(
            endpoint=self._endpoint(f"{where}/endpoint", declared["endpoint"]),
            scheme=declared.get("scheme", "http"),
            method=method,
            path=declared["path"],
            query=dict(declared.get("query", {})),
            headers=dict(declared.get("headers", {})),
            body=declared.get("body", NO_BODY),
            body_template=declared.get("body_template"),
            form=declared.get("body_format") == "form",
            redirects=declared.get("redirects", 0),
            idempotency_header=declared.get("idempotency_header", ""),
            response_bytes_max=declared.get("response_bytes_max", 262_144 if where == "/connector" else 16_384),
        )

    def _mapped(self, where: str, declared: dict[str, Any]) -> Iterator[str]:
        """Give the pointers to arguments in query, headers and body."""
        yield from (source for source in declared.get("query", {}).values() if source.startswith("/"))
        for name, text in declared.get("headers", {}).items():
            yield from self._header(f"{where}/headers/{name}", name, text)
        body = declared.get("body")
        if isinstance(body, dict):
            yield from body.values()
        if "body_template" in declared:
            if body is not None or declared.get("body_format") == "form":
                raise self._refused(f"{where}/body_template", "stands instead of body, and makes JSON")
            try:
                yield from body_places(declared["body_template"])
            except ValueError as error:
                raise self._refused(f"{where}/body_template", str(error)) from None

    def _header(self, where: str, name: str, text: str) -> Iterable[str]:
        if name.lower() in _OWN_HEADERS:
            raise self._refused(where, f"{name} is not for skills to set")
        try:
            in_header = header_places(text)
        except ValueError as error:
            raise self._refused(where, str(error)) from None
        if name.lower() == _AUTHORIZATION and (in_header or not secrets_of(text)):
            raise self._refused(where, "holds a secret and no argument: ${secret:NAME}")
        return in_header

    def _exchange(self, where: str, declared: dict[str, Any]) -> Exchange | None:
        found = declared.get("exchange")
        if (found is not None) is not (declared.get("identity") == UpstreamIdentity.USER):
            raise self._refused(where, "identity user and exchange go together: the token says who the user is")
        if found is None:
            return None
        if _AUTHORIZATION in {name.lower() for name in declared.get("headers", {})}:
            raise self._refused(f"{where}/headers", "authorization carries the user's token")
        return Exchange(**found)

    def _check_identity(self, where: str, declared: dict[str, Any], has_secret: bool) -> None:
        """Refuse a secret that nobody says a word of: policy must know that one account acts for everybody."""
        if has_secret and declared.get("identity", UpstreamIdentity.NONE) == UpstreamIdentity.NONE:
            raise self._refused(where, "a secret makes one account act for every user: say identity: service")

    def _response(self, declared: dict[str, Any]) -> ResponseMapping:
        schema = declared.get("schema")
        if schema is not None:
            try:
                lint_schema(schema)
            except SchemaRefused as error:
                raise self._refused(f"/connector/response/schema{error.pointer}", str(error)) from None
        return ResponseMapping(
            pick=declared.get("pick"),
            schema=None if schema is None else CompiledSchema(schema),
            success=dict(declared.get("success", {})),
        )

    def _endpoint(self, where: str, declared: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] not in self.endpoints:
                raise self._refused(where, f"{match[1]} is not in the configuration tool-gateway.endpoints")
            return self.endpoints[match[1]]

        try:
            return str(parse_endpoint(_ENDPOINT_NAME.sub(value, declared)))
        except AddressRefused as error:
            raise self._refused(where, str(error)) from None

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
