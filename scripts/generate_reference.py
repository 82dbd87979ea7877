"""Writes docs/reference/{agents,api,configuration,crash-points,errors}.md from protos, code and the registry.

`--check` writes nothing and exits 1 when a page is out of date.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from memoryos.type.v1 import field_pb2
from memoryos_core.config import Section
from memoryos_core.crashpoints import CRASH_POINTS
from memoryos_core.sections import installed_sections
from memoryos_harness.agent_schema import agent_schema_text
from pydantic_core import PydanticUndefined
from reference_agents import agents_page
from reference_errors import errors_page

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "reference"
APIS = ("memoryfs", "jobs", "policy", "toolgateway", "harness", "erasure", "type")
# Field numbers in descriptor.proto, by which source comments are addressed.
MESSAGE, ENUM, SERVICE = 4, 5, 6
FIELD, VALUE, METHOD = 2, 2, 2


def descriptors() -> list[FileDescriptorProto]:
    """Give every file of proto/ with its comments."""
    names = sorted(str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto").rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image"
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "proto"), "--include_source_info"]
        subprocess.run([*command, f"--descriptor_set_out={image}", *names], check=True)
        return list(FileDescriptorSet.FromString(image.read_bytes()).file)


def comments(file: FileDescriptorProto) -> dict[tuple[int, ...], str]:
    """Give the leading comment of every element, by its path."""
    return {
        tuple(place.path): " ".join(place.leading_comments.split())
        for place in file.source_code_info.location
        if place.leading_comments
    }


def type_name(field: FieldDescriptorProto) -> str:
    """Give a field's type as one writes it in a proto file."""
    name = (
        field.type_name.lstrip(".") or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    ).removeprefix("google.protobuf.")
    return f"repeated {name}" if field.label == FieldDescriptorProto.LABEL_REPEATED else name


def limits(field: FieldDescriptorProto) -> str:
    """Give a field's rules in words."""
    rules = field.options.Extensions[field_pb2.field]
    words = []
    if rules.required:
        words.append("required")
    if rules.max_bytes:
        words.append(f"≤ {rules.max_bytes:,} bytes")
    if rules.max_items:
        words.append(f"≤ {rules.max_items:,} elements")
    if rules.has_range:
        words.append(f"{rules.min:g}..{rules.max:g}")
    if rules.format:
        words.append(field_pb2.Format.Name(rules.format).removeprefix("FORMAT_").lower())
    if rules.id_prefix:
        words.append(f"{rules.id_prefix}_…")
    return ", ".join(words)


def message_lines(message: DescriptorProto, notes: dict[tuple[int, ...], str], path: tuple[int, ...]) -> Iterator[str]:
    """Give the table of one message."""
    yield f"### {message.name}\n\n{notes.get(path, '')}\n"
    if message.field:
        yield "| field | type | limits | meaning |\n|---|---|---|---|"
        for index, field in enumerate(message.field):
            note = notes.get((*path, FIELD, index), "").replace("|", "\\|")
            yield f"| `{field.name}` | {type_name(field)} | {limits(field)} | {note} |"
        yield ""


def file_lines(file: FileDescriptorProto) -> Iterator[str]:
    """Give the section of one proto file."""
    notes = comments(file)
    for index, service in enumerate(file.service):
        yield f"### {file.package}.{service.name}\n\n{notes.get((SERVICE, index), '')}\n\n| RPC | meaning |\n|---|---|"
        for number, method in enumerate(service.method):
            stream = " (stream)" if method.server_streaming else ""
            yield f"| `{method.name}`{stream} | {notes.get((SERVICE, index, METHOD, number), '')} |"
        yield ""
    for index, enum in enumerate(file.enum_type):
        yield f"### {enum.name}\n\n{notes.get((ENUM, index), '')}\n\n| value | meaning |\n|---|---|"
        for number, value in enumerate(enum.value):
            yield f"| `{value.name}` | {notes.get((ENUM, index, VALUE, number), '')} |"
        yield ""
    for index, message in enumerate(file.message_type):
        yield from message_lines(message, notes, (MESSAGE, index))


def api_page() -> str:
    """Give the reference of all APIs."""
    lines = [
        "# The APIs\n",
        "Generated from `proto/` by `make reference`. Limits are enforced before a handler runs.\n",
    ]
    files = descriptors()
    for api in APIS:
        lines.append(f"## memoryos.{api}.v1\n")
        for file in files:
            if file.package == f"memoryos.{api}.v1":
                lines += file_lines(file)
    return "\n".join(lines).rstrip() + "\n"


def field_notes(kind: type[Section]) -> dict[str, str]:
    """Give the docstring below each field of a section class."""
    import ast
    import inspect
    import textwrap

    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    notes: dict[str, str] = {}
    for line, after in zip(body.body, body.body[1:], strict=False):
        match (line, after):
            case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text)))):
                notes[name] = " ".join(text.split())
    return notes


def default_text(value: Any) -> str:
    """Give a default as one writes it."""
    return "**required**" if value is PydanticUndefined else f"`{value}`" if value not in ("", None) else "–"


def configuration_page() -> str:
    """Give the reference of the configuration."""
    lines = [
        "# Configuration\n",
        "Generated from the section classes by `make reference`. One YAML file (`MEMORYOS_CONFIG`), whose top-level "
        "keys are the sections below; `MEMORYOS_<SECTION>__<FIELD>` in the environment goes on top. Unknown keys are "
        "errors. Secrets are paths of files. `mos config` prints the effective values.\n",
    ]
    for kind in sorted(installed_sections(), key=lambda kind: kind.section):
        notes = field_notes(kind)
        lines.append(f"## {kind.section}\n\n{' '.join((kind.__doc__ or '').split())}\n")
        lines.append("| field | default | meaning |\n|---|---|---|")
        for name, field in kind.model_fields.items():
            default = field.default if field.default_factory is None else field.default_factory()  # type: ignore[call-arg]
            lines.append(f"| `{name}` | {default_text(default)} | {notes.get(name, field.description or '')} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def crash_points_page() -> str:
    """Give the list of crash points."""
    lines = [
        "# Crash points\n",
        "Generated from `memoryos_core.crashpoints` by `make reference`. A process started with "
        "`MEMORYOS_CRASH_POINT=name[:n]` kills itself with SIGKILL at the n-th pass; a test dies at each of them.\n",
        "| name | state of the world there |\n|---|---|",
    ]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in CRASH_POINTS.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, page in (
        ("agents.md", agents_page(json.loads(agent_schema_text()))),
        ("api.md", api_page()),
        ("configuration.md", configuration_page()),
        ("crash-points.md", crash_points_page()),
        ("errors.md", errors_page(descriptors(), comments, limits)),
    ):
        path = OUT / name
        if not path.exists() or path.read_text(encoding="utf-8") != page:
            stale.append(name)
            if not check:
                path.write_text(page, encoding="utf-8")
    if stale:
        print(("out of date: " if check else "wrote ") + ", ".join(stale))
    return int(bool(stale) and check)


if __name__ == "__main__":
    sys.exit(main())
