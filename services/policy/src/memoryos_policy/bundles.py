"""From a folder of Rego and data to the one archive that OPA serves.

The revision of a bundle is the SHA-256 of what decides: paths and bytes of its
rules and data, tests left out. The archive is named by it and has the same
bytes whenever and wherever it is built, so every decided revision can be kept.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memoryos_core.canonical import canonical_json

ROOT: Final = "memoryos"
"""The only part of the data document that a bundle may own: not `system`, where OPA's own authorisation lives."""
FILES_MAX: Final = 2_000
FILE_BYTES_MAX: Final = 4 * 1024 * 1024
ARCHIVE_BYTES_MAX: Final = 64 * 1024 * 1024
_TEST_SUFFIX: Final = "_test.rego"


class BundleInvalid(ValueError):
    """The folder is no bundle; the message says which file is at fault."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A built bundle: `path` is a gzipped tar, `revision` 64 hex digits."""

    revision: str
    path: Path


def default_bundle_dir() -> Path:
    """Give the folder of the rules that come with this package."""
    return Path(__file__).resolve().parents[2] / "bundle"


def default_authz_dir() -> Path:
    """Give the folder of the policy that guards OPA itself."""
    return Path(__file__).resolve().parents[2] / "authz"


def default_schema_dir() -> Path:
    """Give the folder of the JSON Schemas of input and result."""
    return Path(__file__).resolve().parents[2] / "schemas"


def capabilities_file() -> Path:
    """Give the file of the built-ins that rules may call: values from values, and nothing else.

    No network, clock, chance, environment, log or remote schema: a decision
    depends on its input and data alone, carries nothing out and can be made again.
    """
    return default_schema_dir() / "capabilities.json"


def read_files(source: Path) -> dict[str, bytes]:
    """Give the rules and data under `source` by their path in the bundle, tests left out.

    Raises BundleInvalid for anything that OPA would silently ignore or follow:
    other files, symbolic links, files outside `memoryos/`, none at all.
    """
    files: dict[str, bytes] = {}
    for folder, folders, names in os.walk(source):
        folders.sort()
        for name in sorted([*names, *(f for f in folders if (Path(folder) / f).is_symlink())]):
            path = Path(folder) / name
            relative = path.relative_to(source).as_posix()
            if path.is_symlink() or not path.is_file():
                raise BundleInvalid(f"{relative}: not a regular file")
            if not (name.endswith(".rego") or name == "data.json"):
                raise BundleInvalid(f"{relative}: a bundle holds .rego and data.json files only")
            if not relative.startswith(f"{ROOT}/"):
                raise BundleInvalid(f"{relative}: outside {ROOT}/")
            if path.stat().st_size > FILE_BYTES_MAX:
                raise BundleInvalid(f"{relative}: more than {FILE_BYTES_MAX} bytes")
            if not name.endswith(_TEST_SUFFIX):
                files[relative] = path.read_bytes()
    if not any(name.endswith(".rego") for name in files):
        raise BundleInvalid(f"{source}: no rules")
    if len(files) > FILES_MAX:
        raise BundleInvalid(f"{source}: more than {FILES_MAX} files")
    return files


def revision_of(files: dict[str, bytes]) -> str:
    """Give the revision of these files: SHA-256 over the canonical list of path and digest."""
    listing = [[name, hashlib.sha256(files[name]).hexdigest()] for name in sorted(files)]
    return hashlib.sha256(canonical_json(listing)).hexdigest()


def build_bundle(source: Path, out_dir: Path) -> Bundle:
    """Write the archive of `source` into `out_dir`, named by its revision, and give it back.

    Building the same content again changes nothing; a reader never sees half an archive.
    """
    files = read_files(source)
    revision = revision_of(files)
    path = out_dir / f"{revision}.tar.gz"
    out_dir.mkdir(parents=True, exist_ok=True)
    scratch = out_dir / f".{revision}.{os.getpid()}"
    scratch.write_bytes(archive_of(files))
    scratch.replace(path)
    return Bundle(revision, path)


def archive_of(files: dict[str, bytes]) -> bytes:
    """Give the archive of these files, with their manifest. Raises BundleInvalid for one that is too large to keep."""
    manifest = canonical_json({"revision": revision_of(files), "roots": [ROOT], "rego_version": 1})
    archive = _archive({**files, ".manifest": manifest})
    if len(archive) > ARCHIVE_BYTES_MAX:
        raise BundleInvalid(f"the archive has more than {ARCHIVE_BYTES_MAX} bytes")
    return archive


def unpack(archive: bytes, folder: Path) -> None:
    """Write the files of an archive of ours into a folder."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        tar.extractall(folder, filter="data")


def skill_names(source: Path) -> frozenset[str]:
    """Give the names of the skills that have rules: a skill without is always denied."""
    prefix = f"{ROOT}/skills/"
    return frozenset(name.removeprefix(prefix).split("/")[0] for name in read_files(source) if name.startswith(prefix))


def _archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            info.mode = 0o644
            tar.addfile(info, io.BytesIO(files[name]))
    return buffer.getvalue()
