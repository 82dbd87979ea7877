"""The newest sealed block, kept in a file outside the database.

Without it somebody who owns the database could cut off the last rows together
with their blocks and nothing would be missing. An auditor who notes the head
elsewhere (`mos audit verify` prints it) does not depend on the file either.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from memoryos_audit.chain import Block
from memoryos_audit.seal_key import PublicSealKeys


class HeadInvalid(ValueError):
    """The head file is not what the sealer writes."""


@dataclass(frozen=True, slots=True)
class Head:
    """Number, hash (hex) and signature (hex) of a block."""

    block: int
    hash: str
    key_id: str
    signature: str

    @classmethod
    def of(cls, block: Block) -> "Head":
        """The head that `block` is."""
        return cls(block.number, block.hash.hex(), block.key_id, block.signature.hex())

    @classmethod
    def load(cls, path: Path) -> "Head | None":
        """The head in `path`, None when there is no file."""
        if not path.exists():
            return None
        try:
            document = json.loads(path.read_text("utf-8"))
            return cls(int(document["block"]), *(str(document[name]) for name in ("hash", "key_id", "signature")))
        except (ValueError, KeyError, TypeError) as error:
            raise HeadInvalid(f"{path}: {HeadInvalid.__doc__}") from error

    def signed_by(self, keys: PublicSealKeys) -> bool:
        """Whether a seal key signed it."""
        return keys.signed(self.key_id, bytes.fromhex(self.signature), bytes.fromhex(self.hash))

    def save(self, path: Path) -> None:
        """Replace the file, whole or not at all."""
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
