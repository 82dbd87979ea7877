"""Validation of arguments: complete for JSON Schema 2020-12, bounded, and silent about values.

What differs from jsonschema's own keywords, and why:
- patterns run in RE2 (linear time, `$` only at the very end, `\\d` ASCII);
- `format` is asserted, always;
- `anyOf` and `oneOf` end a branch at its first error, of which nothing is told anyway;
- `uniqueItems` is linear and `multipleOf` exact in decimal;
- references cannot leave the document: the registry holds the meta-schema and what is given along;
- every keyword counts against STEPS_MAX, so no schema can be made to run for ever.
Numbers follow JSON Schema: 1.0 is an integer (it is passed on as it was sent),
true is not, and NaN cannot come in at all (memoryos_core.canonical).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, Final

import jsonschema
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from memoryos_core.canonical import JsonValue

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.evaluated import evaluated_properties, within
from memoryos_toolgateway.domain.formats import has_format, has_number_format
from memoryos_toolgateway.domain.patterns import compile_pattern
from memoryos_toolgateway.domain.schema_references import registry_of
from memoryos_toolgateway.domain.semantic_rules import Rule, Violation, rule_violations

STEPS_MAX: Final = 100_000
"""Keywords evaluated in one validation, under a second; more is refused."""
VIOLATIONS_MAX: Final = 20
"""Violations told at once."""
_EXPECTATION_LENGTH_MAX: Final = 200
_NUMBER_BITS_MAX: Final = 4096

_steps: ContextVar[list[int]] = ContextVar("steps")


class TooManySteps(Exception):
    """The validation was ended: the schema and these arguments are too much work together."""


Keyword = Callable[[Any, Any, Any, dict[str, Any]], Iterator[ValidationError] | None]


def _pattern(_: Any, text: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not compile_pattern(text).matches(instance):
        yield ValidationError("")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for text, schema in patterns.items():
            for name, value in instance.items():
                if compile_pattern(text).matches(name):
                    yield from validator.descend(value, schema, path=name, schema_path=text)


def _additional(validator: Any, schema: Any, instance: Any, parent: dict[str, Any]) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    patterns = [compile_pattern(text) for text in parent.get("patternProperties", {})]
    for name, value in instance.items():
        if name not in parent.get("properties", {}) and not any(pattern.matches(name) for pattern in patterns):
            if schema is False:
                yield ValidationError("", path=[name])
            else:
                yield from validator.descend(value, schema, path=name)


def _unevaluated(validator: Any, schema: Any, instance: Any, parent: dict[str, Any]) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for name in instance.keys() - evaluated_properties(validator, instance, parent):
        if schema is False:
            yield ValidationError("", path=[name])
        else:
            yield from validator.descend(instance[name], schema, path=name)


def _unique_items(_: Any, wanted: bool, instance: Any, __: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list) and len({_identity(item) for item in instance}) != len(instance):
        yield ValidationError("")


def _identity(value: Any) -> Any:
    """Give a hashable that is equal for values equal in JSON Schema: 1 = 1.0, true ≠ 1."""
    if isinstance(value, bool) or value is None:
        return ("literal", str(value))
    if isinstance(value, list):
        return ("array", *map(_identity, value))
    if isinstance(value, dict):
        return ("object", frozenset((name, _identity(inner)) for name, inner in value.items()))
    return ("scalar", value)


def _multiple_of(_: Any, divisor: float, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, bool) or not isinstance(instance, int | float):
        return
    too_long = isinstance(instance, int) and instance.bit_length() > _NUMBER_BITS_MAX
    if too_long or (Fraction(str(instance)) / Fraction(str(divisor))).denominator != 1:
        yield ValidationError("")


def _format(_: Any, declared: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    holds = has_format(instance, declared) if isinstance(instance, str) else has_number_format(instance, declared)
    if not holds:
        yield ValidationError("")


def _any_of(validator: Any, schemas: list[Any], instance: Any, _: Any) -> Iterator[ValidationError]:
    if not any(within(validator, schema).is_valid(instance) for schema in schemas):
        yield ValidationError("")


def _one_of(validator: Any, schemas: list[Any], instance: Any, _: Any) -> Iterator[ValidationError]:
    holding = 0
    for schema in schemas:
        holding += within(validator, schema).is_valid(instance)
        if holding > 1:
            break
    if holding != 1:
        yield ValidationError("")


_OWN: Final[dict[str, Any]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "unevaluatedProperties": _unevaluated,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
    "format": _format,
}


def _counted(keyword: Keyword) -> Keyword:
    @functools.wraps(keyword)
    def count(validator: Any, value: Any, instance: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
        budget = _steps.get()
        budget[0] -= 1
        if budget[0] < 0:
            raise TooManySteps
        yield from keyword(validator, value, instance, schema) or ()

    return count


_extend: Final[Any] = jsonschema.validators.extend
_Validator: Final[Any] = _extend(
    Draft202012Validator,
    {name: _counted(keyword) for name, keyword in {**Draft202012Validator.VALIDATORS, **_OWN}.items()},
)
_WithoutFormats: Final[Any] = _extend(_Validator, {"format": lambda *_: ()})


class CompiledSchema:
    """A linted schema, ready to check values."""

    def __init__(
        self,
        schema: Any,
        documents: Mapping[str, Any] | None = None,
        *,
        rules: Sequence[Rule] = (),
        formats: bool = True,
    ) -> None:
        """Take a schema and, by address, the documents that lint_schema was given with it.

        `rules` are asked once the schema holds. Without `formats` they are
        annotations, as the dialect has it by default.
        """
        self._rules = rules
        self._validator = (_Validator if formats else _WithoutFormats)(schema, registry=registry_of(documents or {}))

    def violations(self, value: JsonValue) -> list[Violation]:
        """Give the rules that `value` breaks, at most VIOLATIONS_MAX, in the order of the value.

        Depth and size are the parser's limits (memoryos_core.canonical.parse_json).
        """
        token = _steps.set([STEPS_MAX])
        found: list[Violation] = []
        try:
            for error in self._validator.iter_errors(value):
                found.append(_violation(error))
                if len(found) == VIOLATIONS_MAX:
                    break
        except (TooManySteps, RecursionError):
            return [Violation("", "limit", f"arguments that are checked in {STEPS_MAX} steps")]
        finally:
            _steps.reset(token)
        if not found:
            found = rule_violations(self._rules, value)[:VIOLATIONS_MAX]
        return sorted(found, key=lambda violation: (violation.pointer, violation.rule))


def _violation(error: ValidationError) -> Violation:
    rule = str(error.validator)
    return Violation(pointers.join(error.absolute_path), rule, _expectation(rule, error))


def _expectation(rule: str, error: ValidationError) -> str:
    """Say what the schema asks for; only what the skill file says, nothing of the value."""
    wanted: Any = error.validator_value
    if rule in ("additionalProperties", "unevaluatedProperties") and wanted is False:
        return "no parameter of this name"
    if rule == "None":
        return "no value here"
    if isinstance(wanted, dict) or rule in ("anyOf", "oneOf", "allOf", "not", "if", "$ref"):
        return f"what {rule} of the schema says"
    if rule == "required":
        return "the required parameters: " + ", ".join(map(str, wanted))[:_EXPECTATION_LENGTH_MAX]
    return f"{rule} {wanted}"[:_EXPECTATION_LENGTH_MAX]
