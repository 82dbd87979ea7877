"""Secrets of upstreams, from files, for as long as one request takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from memoryos_core.config import ConfigError, SecretFile

_USABLE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,8190}[\x21-\x7e])?\Z")


class SecretMissing(Exception):
    """A secret cannot be used; the text names it and never holds it."""


class Secrets:
    """Reads secrets by name. A file is read each time, so that a new one counts at once and nothing is kept."""

    def __init__(self, files: Mapping[str, SecretFile]) -> None:
        self._files = files

    def names(self) -> frozenset[str]:
        """Give the names that the configuration knows."""
        return frozenset(self._files)

    def read(self, names: Iterable[str]) -> dict[str, str]:
        """Give the secrets of these names, or raise SecretMissing."""
        return {name: self._one(name) for name in names}

    def _one(self, name: str) -> str:
        if name not in self._files:
            raise SecretMissing(f"{name} is not in the configuration tool-gateway.secrets")
        try:
            text = self._files[name].read()
        except (ConfigError, UnicodeDecodeError):
            raise SecretMissing(f"the file of the secret {name} cannot be read, or is empty") from None
        if not _USABLE.match(text):
            raise SecretMissing(f"the secret {name} is not one line of printable ASCII")
        return text
