"""Where the seal key and the head are."""

from typing import ClassVar

from memoryos_core.config import ConfigPath, Section
from pydantic import Field


class AuditSection(Section):
    """The audit seal. Key and head stay outside the database; `<seal_key_file>.pub` verifies."""

    section: ClassVar[str] = "audit"

    seal_key_file: ConfigPath
    head_file: ConfigPath
    # How long a row may stay unproven; every round with rows adds one block.
    seal_interval_s: float = Field(default=2.0, gt=0, le=3600)
