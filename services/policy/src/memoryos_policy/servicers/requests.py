"""From requests to questions: what the field rules cannot say is checked here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar, cast

from memoryos.policy.v1 import policy_pb2
from memoryos_core.canonical import JsonValue, parse_json
from memoryos_core.errors import InvalidField

from memoryos_policy.domain.questions import Action, EffectClass, Purpose, Question, Resource
from memoryos_policy.domain.spoken import texts_of
from memoryos_policy.domain.verdicts import RISKS, Effect
from memoryos_policy.ports import DecisionFilter, Page

PAGE_SIZE: Final = 50
ARGUMENTS_BYTES_MAX: Final = 262_144
PROPERTIES_BYTES_MAX: Final = 16_384
RETURNS: Final = frozenset({"untrusted", "personal"})
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*")

EFFECT_CLASSES: Final = {
    policy_pb2.EFFECT_CLASS_READ: EffectClass.READ,
    policy_pb2.EFFECT_CLASS_IDEMPOTENT: EffectClass.IDEMPOTENT,
    policy_pb2.EFFECT_CLASS_KEYED: EffectClass.KEYED,
    policy_pb2.EFFECT_CLASS_NON_IDEMPOTENT: EffectClass.NON_IDEMPOTENT,
}
_EGRESS: Final[Mapping[int, str]] = {
    policy_pb2.EGRESS_NONE: "none",
    policy_pb2.EGRESS_INTERNAL: "internal",
    policy_pb2.EGRESS_EXTERNAL: "external",
}
_IDENTITIES: Final[Mapping[int, str]] = {
    policy_pb2.UPSTREAM_IDENTITY_UNSPECIFIED: "none",
    policy_pb2.UPSTREAM_IDENTITY_USER: "user",
    policy_pb2.UPSTREAM_IDENTITY_SERVICE: "service",
}
EFFECTS: Final = {
    policy_pb2.EFFECT_ALLOW: Effect.ALLOW,
    policy_pb2.EFFECT_DENY: Effect.DENY,
    policy_pb2.EFFECT_MANUAL_REVIEW: Effect.MANUAL_REVIEW,
}


_VIEWS: Final[Mapping[int, bool]] = {
    policy_pb2.DECISION_VIEW_UNSPECIFIED: False,
    policy_pb2.DECISION_VIEW_BASIC: False,
    policy_pb2.DECISION_VIEW_INPUT: True,
}
_TIME_MIN: Final = datetime(1970, 1, 2, tzinfo=UTC)
_TIME_MAX: Final = datetime(9998, 1, 1, tzinfo=UTC)
V = TypeVar("V")


def question_of(request: policy_pb2.DecideRequest, field: str = "") -> Question:
    """Give the question of one request; `field` is the path of the request in a batch, for violations."""
    if request.purpose == policy_pb2.PURPOSE_CALL:
        return _call(request, field)
    if request.purpose == policy_pb2.PURPOSE_LIST:
        return _listing(request, field)
    raise InvalidField.of(f"{field}purpose", "must be PURPOSE_CALL or PURPOSE_LIST")


def filter_of(request: policy_pb2.ListDecisionsRequest) -> DecisionFilter:
    """Give which decisions are asked for."""
    return DecisionFilter(
        user=request.user,
        skill=request.skill,
        call_id=request.call_id,
        trace_id=request.trace_id,
        review_id=request.review_id,
        effect=effect_of(request.effect),
        reason_code=request.reason_code,
        policy=request.policy,
        from_time=_time(request, "from_time"),
        until_time=_time(request, "until_time"),
    )


def effect_of(value: int) -> Effect | None:
    """Give the effect that is asked for; UNSPECIFIED is none in particular."""
    return _known({int(known): effect for known, effect in EFFECTS.items()}, value, "effect") if value else None


def with_input(view: int) -> bool:
    """Tell whether the view shows inputs."""
    return _known(_VIEWS, view, "view")


def page_of(page_size: int, page_token: str) -> Page:
    """Give the page that is asked for; size 0 is the default."""
    return Page(size=page_size or PAGE_SIZE, token=page_token)


def _call(request: policy_pb2.DecideRequest, field: str) -> Question:
    if not request.context.call_id:
        raise InvalidField.of(f"{field}context.call_id", "is needed for a call")
    if not _DIGEST.fullmatch(request.action_digest):
        raise InvalidField.of(f"{field}action_digest", "must be a SHA-256 in hex")
    if not request.arguments_json:
        raise InvalidField.of(f"{field}arguments_json", "is needed for a call; {} where there are none")
    properties = request.resource.properties_json or b"{}"
    arguments = _object(request.arguments_json, ARGUMENTS_BYTES_MAX, f"{field}arguments_json")
    return Question(
        purpose=Purpose.CALL,
        action=_action(request.action, field),
        resource=Resource(
            type=request.resource.type,
            id=request.resource.id,
            properties=_object(properties, PROPERTIES_BYTES_MAX, f"{field}resource.properties_json"),
        ),
        arguments=arguments,
        texts=texts_of(arguments),
        action_digest=request.action_digest,
        call_id=request.context.call_id,
        attempt=request.context.attempt or 1,
    )


def _listing(request: policy_pb2.DecideRequest, field: str) -> Question:
    for name, value in (("arguments_json", request.arguments_json), ("action_digest", request.action_digest)):
        if value:
            raise InvalidField.of(f"{field}{name}", "has no place in a listing")
    return Question(
        purpose=Purpose.LIST,
        action=_action(request.action, field),
        resource=Resource(properties={}),
        arguments={},
        texts=(),
        action_digest="",
        call_id="",
        attempt=0,
    )


def _action(action: policy_pb2.Action, field: str) -> Action:
    effect_class = EFFECT_CLASSES.get(action.effect_class)
    if effect_class is None:
        raise InvalidField.of(f"{field}action.effect_class", "is not a known effect class")
    if action.risk not in RISKS:
        raise InvalidField.of(f"{field}action.risk", "must be low, medium, high or critical")
    for word in action.returns:
        if word not in RETURNS:
            raise InvalidField.of(f"{field}action.returns", "must be of untrusted and personal")
    return Action(
        skill=action.skill,
        version=action.version,
        definition_digest=action.definition_digest,
        permissions=tuple(action.permissions),
        effect_class=effect_class,
        risk=action.risk,
        opened=action.opened,
        egress=_egress(action, effect_class, field),
        destructive=action.destructive,
        returns=tuple(dict.fromkeys(action.returns)),
        identity=_known(_IDENTITIES, action.identity, f"{field}action.identity"),
        recipients=_pointers(action.recipients, f"{field}action.recipients"),
        sensitive_arguments=_pointers(action.sensitive_arguments, f"{field}action.sensitive_arguments"),
        intents=tuple(action.intents),
    )


def _egress(action: policy_pb2.Action, effect_class: EffectClass, field: str) -> str:
    """Give where what it sends can go; what a skill that writes does not say is the worst that it can be."""
    if action.egress == policy_pb2.EGRESS_UNSPECIFIED:
        return "none" if effect_class is EffectClass.READ else "external"
    return _known(_EGRESS, action.egress, f"{field}action.egress")


def _time(request: policy_pb2.ListDecisionsRequest, field: str) -> datetime | None:
    if not request.HasField(field):  # type: ignore[arg-type]
        return None
    try:
        time: datetime = getattr(request, field).ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidField.of(field, "is no time") from None
    if not _TIME_MIN <= time <= _TIME_MAX:
        raise InvalidField.of(field, "is out of range")
    return time


def _known(values: Mapping[int, V], value: int, field: str) -> V:
    if value not in values:
        raise InvalidField.of(field, "is not a known value")
    return values[value]


def _pointers(pointers: Sequence[str], field: str) -> tuple[str, ...]:
    for pointer in pointers:
        if not _POINTER.fullmatch(pointer):
            raise InvalidField.of(field, "must be JSON pointers")
    return tuple(dict.fromkeys(pointers))


def _object(raw: bytes, max_bytes: int, field: str) -> dict[str, JsonValue]:
    value = parse_json(raw, max_bytes=max_bytes, field=field)
    if not isinstance(value, dict):
        raise InvalidField.of(field, "must be a JSON object")
    return cast(dict[str, JsonValue], value)
