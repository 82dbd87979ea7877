"""The configuration that the services of one data folder get: ours, the folder's config.yaml, --set on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from memoryos_core.config import Config, ConfigError, load
from memoryos_core.sections import ALL_SECTIONS, installed_sections

from memoryos_cli.datafolder import DataFolder
from memoryos_cli.exits import CliError, Exit

Values = dict[str, dict[str, Any]]
"""Section → field → value."""


def base_values(folder: DataFolder, ports: Mapping[str, int], host: str) -> Values:
    """Give what follows from the data folder and the chosen ports."""
    peers = {
        name.replace("-", "_"): f"{host}:{ports[name]}" for name in ("memoryfs", "policy", "tool-gateway", "harness")
    }
    return {
        "identity": {"keys_file": str(folder.keys / "jwks.json")},
        "sealing": {"epoch_key_file": str(folder.secrets / "epoch.key")},
        "telemetry": {"span_dir": str(folder.spans)},
        "postgres": {"host": host, "port": ports["postgres"], "secrets_dir": str(folder.secrets)},
        "peers": peers,
        "policy": {"opa_host": host, "opa_port": ports["opa"], "opa_token_file": str(folder.secrets / "opa.token")},
        "tool-gateway": {"skill_dirs": [str(folder.root / "skills")]},
        "audit": {
            "seal_key_file": str(folder.keys / "audit.pem"),
            "head_file": str(folder.keys / "audit.head"),
        },
        "harness": {"agents_dir": str(folder.root / "agents")},
        "memoryfs": {"receipt_key_file": str(folder.keys / "receipts.pem")},
    }


def merged(base: Values, file: Path, overrides: Sequence[str]) -> Values:
    """Give `base` with the fields of a YAML file and then of `section.field=value` texts on top.

    Raises CliError for a section or text that is not understood; values of
    overrides are read as YAML, so lists and maps can be given.
    """
    values = {section: dict(fields) for section, fields in base.items()}
    for section, fields in _read(file).items():
        _known(section, str(file))
        values.setdefault(section, {}).update(fields)
    for text in overrides:
        name, separator, value = text.partition("=")
        section, dot, field = name.partition(".")
        if not (separator and dot and field):
            raise CliError(f"--set {text}: the form is section.field=value", exit_code=Exit.USAGE)
        _known(section, f"--set {text}")
        try:
            values.setdefault(section, {})[field] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise CliError(f"--set {text}: the value is no YAML", exit_code=Exit.USAGE) from None
    return values


def checked(file: Path) -> Config:
    """Give all sections of a merged configuration file with their defaults; CliError names the first mistake."""
    try:
        return load(installed_sections(), file=file, environ={}, known=ALL_SECTIONS)
    except ConfigError as error:
        raise CliError(str(error), exit_code=Exit.USAGE) from None


def dump(values: Values) -> str:
    """Give the YAML text of a configuration."""
    return yaml.safe_dump(values, allow_unicode=True, sort_keys=True)


def _read(file: Path) -> Values:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CliError(f"{file} cannot be read: {error}", exit_code=Exit.USAGE) from None
    if not isinstance(document, dict) or not all(isinstance(fields, dict) for fields in document.values()):
        raise CliError(f"{file}: the top level maps section names to fields", exit_code=Exit.USAGE)
    return document


def _known(section: str, where: str) -> None:
    if section not in ALL_SECTIONS:
        raise CliError(
            f"{where}: unknown section {section!r}; known are {', '.join(sorted(ALL_SECTIONS))}", exit_code=Exit.USAGE
        )
