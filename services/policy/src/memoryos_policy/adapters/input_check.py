"""The closed form of an input, schemas/input.schema.json: what does not fit is not asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema_rs import Draft202012Validator

from memoryos_policy.adapters.faults import Fault
from memoryos_policy.bundles import default_schema_dir


def check_input(document: Mapping[str, Any]) -> None:
    """Raise Fault("input") unless the rules may see this document. Its arguments are an object of any form."""
    if not _validator("input").is_valid(document):
        raise Fault("input")


def fits_result(result: Any) -> bool:
    """Tell whether a result fits schemas/result.schema.json: the parser and it say the same."""
    return bool(_validator("result").is_valid(result))


@cache
def _validator(name: str) -> Draft202012Validator:
    schema = json.loads((default_schema_dir() / f"{name}.schema.json").read_text(encoding="utf-8"))
    return Draft202012Validator(schema, validate_formats=True)
