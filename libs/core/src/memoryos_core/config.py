"""Configuration: one frozen section class per lib and service, one YAML file, the environment on top.

A section's owner declares it (subclass of Section); `load` builds the wanted
sections from a YAML file whose top-level keys are section names, overridden by
MEMORYOS_<SECTION>__<FIELD>. A key that no section knows is an error. Secrets
are paths of files, never values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

ENV_PREFIX: Final = "MEMORYOS_"
RESERVED_ENV: Final = frozenset({"MEMORYOS_CONFIG", "MEMORYOS_CRASH_POINT", "MEMORYOS_DATA"})
"""Variables with our prefix that are no configuration fields."""


class ConfigError(Exception):
    """The configuration is wrong; the message names the key and what is expected."""


class SecretFile:
    """The path of a file that holds a secret. Its text form never shows the secret."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> str:
        """Give the secret without surrounding white space; raises ConfigError when it cannot be read."""
        try:
            text = self.path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(f"secret file {self.path}: {error.strerror}") from None
        if not text:
            raise ConfigError(f"secret file {self.path} is empty")
        return text

    def __repr__(self) -> str:
        return f"SecretFile({str(self.path)!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Accept a path in configuration, show the path again."""
        return core_schema.no_info_after_validator_function(
            lambda value: value if isinstance(value, cls) else cls(_absolute(value)),
            core_schema.union_schema([core_schema.is_instance_schema(cls), handler.generate_schema(Path)]),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda secret: str(secret.path)),
        )


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


ConfigPath = Annotated[Path, AfterValidator(_absolute)]
"""A path; relative ones and ~ are made absolute."""


class Section(BaseModel):
    """Base of every configuration section: frozen, unknown fields are errors, docstring = reference text."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    section: ClassVar[str]


S = TypeVar("S", bound=Section)


class Config:
    """The effective configuration: config[SectionClass]."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._sections = {type(section): section for section in sections}

    def __getitem__(self, kind: type[S]) -> S:
        section = self._sections[kind]
        assert isinstance(section, kind)
        return section

    def effective(self) -> dict[str, dict[str, Any]]:
        """Give every section as plain values; secrets appear as the paths of their files."""
        return {s.section: json.loads(s.model_dump_json()) for s in self._sections.values()}


def load(
    sections: Iterable[type[Section]],
    *,
    file: Path | None,
    environ: Mapping[str, str],
    known: Iterable[str] = (),
) -> Config:
    """Give the configuration of a process.

    `known` names sections that other processes read from the same file; any
    other key is a ConfigError.
    """
    kinds = list(sections)
    values = _from_file(file)
    names = {kind.section for kind in kinds}
    unknown = sorted(set(values) - names - set(known))
    if unknown:
        raise ConfigError(f"{file}: unknown section {unknown[0]!r}; known are {', '.join(sorted(names | set(known)))}")
    _overlay(values, environ, names | set(known))
    built = []
    for kind in kinds:
        try:
            built.append(kind.model_validate(values.get(kind.section, {})))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in (kind.section, *first["loc"]))
            raise ConfigError(f"configuration {where}: {first['msg']}") from None
    return Config(built)


def _from_file(file: Path | None) -> dict[str, dict[str, Any]]:
    if file is None:
        return {}
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigError(f"configuration file {file}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"configuration file {file} is no YAML: {error}") from None
    if not isinstance(document, dict) or not all(isinstance(value, dict) for value in document.values()):
        raise ConfigError(f"configuration file {file}: the top level maps section names to fields")
    return document


def _overlay(values: dict[str, dict[str, Any]], environ: Mapping[str, str], names: set[str]) -> None:
    by_env = {name.upper().replace("-", "_"): name for name in names}
    for variable, text in environ.items():
        if not variable.startswith(ENV_PREFIX) or variable in RESERVED_ENV:
            continue
        section, _, field = variable.removeprefix(ENV_PREFIX).partition("__")
        if section not in by_env or not field:
            raise ConfigError(f"unknown variable {variable}; the form is {ENV_PREFIX}<SECTION>__<FIELD>")
        values.setdefault(by_env[section], {})[field.lower()] = _scalar(text)


def _scalar(text: str) -> Any:
    """Read lists and maps as YAML; leave the rest to the field's type."""
    return yaml.safe_load(text) if text[:1] in "[{" else text
