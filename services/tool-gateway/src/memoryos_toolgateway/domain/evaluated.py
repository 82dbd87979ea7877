"""Which properties a schema has looked at, for unevaluatedProperties (JSON Schema 2020-12, 11.3).

jsonschema has the same walk, but searches patternProperties with a
backtracking engine; this one uses RE2.
"""

from __future__ import annotations

from typing import Any

from memoryos_toolgateway.domain.patterns import compile_pattern
from memoryos_toolgateway.domain.schema_references import inside


def evaluated_properties(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    """Give the names in `instance` that `schema` evaluates, successfully where that depends on the value."""
    if not isinstance(schema, dict):
        return set()
    found = set(schema.get("properties", {})) & instance.keys()
    patterns = [compile_pattern(text) for text in schema.get("patternProperties", {})]
    found |= {name for name in instance if any(pattern.matches(name) for pattern in patterns)}
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        further = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        found |= {name for name in instance.keys() - found if _holds(validator, instance[name], further)}
    for inner_validator, inner in _applied(validator, instance, schema):
        found |= evaluated_properties(inner_validator, instance, inner)
    return found


def _holds(validator: Any, instance: Any, schema: Any) -> bool:
    return bool(within(validator, schema).is_valid(instance))


def within(validator: Any, schema: Any) -> Any:
    """Give the validator of a subschema, whose references start at its own $id."""
    return validator.evolve(schema=schema, _resolver=inside(validator._resolver, schema))


def _applied(validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Give the subschemas that apply to the same value and hold, each with its validator."""
    applied: list[tuple[Any, Any]] = []
    for reference in (schema[keyword] for keyword in ("$ref", "$dynamicRef") if keyword in schema):
        resolved = validator._resolver.lookup(reference)
        applied.append((validator.evolve(schema=resolved.contents, _resolver=resolved.resolver), resolved.contents))
    candidates = [inner for keyword in ("allOf", "anyOf", "oneOf") for inner in schema.get(keyword, [])]
    candidates += [inner for name, inner in schema.get("dependentSchemas", {}).items() if name in instance]
    candidates = [inner for inner in candidates if _holds(validator, instance, inner)]
    if "if" in schema:
        holds = _holds(validator, instance, schema["if"])
        candidates += [schema["if"], schema.get("then", True)] if holds else [schema.get("else", True)]
    return applied + [(within(validator, inner), inner) for inner in candidates]
