"""What reviews forget: sizes, stray output, broken links, unlisted reasons, unclassified fields."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from google.protobuf.descriptor import FieldDescriptor

ROOT = Path(__file__).parents[2]
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
CLASS_PUBLIC_METHODS_MAX = 12
# Tests read as lists of cases; one file may be longer, a function may hold a whole story.
TEST_FILE_LINES_MAX = 800
READERS_OF_THE_ENVIRONMENT = {"main.py", "worker.py", "sealer.py", "upkeep.py"}
FORBIDDEN_NAMES = {"utils.py", "helpers.py", "common.py", "manager.py"}
APIS = ("type", "jobs", "erasure", "memoryfs", "policy", "toolgateway", "harness")
PROTO_MODULES = [
    "memoryos.type.v1.field_pb2",
    "memoryos.type.v1.common_pb2",
    "memoryos.erasure.v1.erasure_pb2",
    "memoryos.jobs.v1.jobs_pb2",
    "memoryos.memoryfs.v1.admin_pb2",
    "memoryos.memoryfs.v1.bindings_pb2",
    "memoryos.memoryfs.v1.filter_pb2",
    "memoryos.memoryfs.v1.item_pb2",
    "memoryos.memoryfs.v1.lifecycle_pb2",
    "memoryos.memoryfs.v1.memoryfs_pb2",
    "memoryos.memoryfs.v1.namespace_pb2",
    "memoryos.memoryfs.v1.snapshots_pb2",
    "memoryos.memoryfs.v1.transfer_pb2",
    "memoryos.policy.v1.policy_pb2",
    "memoryos.policy.v1.reviews_pb2",
    "memoryos.toolgateway.v1.tool_gateway_pb2",
    "memoryos.harness.v1.agents_pb2",
    "memoryos.harness.v1.sessions_pb2",
    "memoryos.harness.v1.tasks_pb2",
    "memoryos.harness.v1.tokens_pb2",
]


def tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


FILES = tracked()
PYTHON = [path for path in FILES if path.suffix == ".py" and "libs/protos/src" not in str(path)]
SOURCE = [path for path in PYTHON if "/src/" in str(path)]


def place(path: Path, line: int | None = None) -> str:
    return f"{path.relative_to(ROOT)}" + (f":{line}" if line else "")


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def is_test(path: Path) -> bool:
    """A contract suite is a class of tests that adapters inherit."""
    return "/tests/" in str(path) or "/contracts/" in str(path)


def test_files_and_functions_stay_small():
    wrong = []
    for path in PYTHON:
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > (TEST_FILE_LINES_MAX if is_test(path) else FILE_LINES_MAX):
            wrong.append(f"{place(path)} has {lines} lines")
        if is_test(path):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    wrong.append(f"{place(path, node.lineno)} {node.name} has {length} lines")
            if isinstance(node, ast.ClassDef):
                methods = [m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
                public = [m for m in methods if not m.name.startswith("_")]
                if len(public) > CLASS_PUBLIC_METHODS_MAX:
                    wrong.append(f"{place(path, node.lineno)} {node.name} has {len(public)} public methods")
    assert not wrong, "\n".join(wrong)


def test_only_main_modules_read_the_environment_and_only_the_command_line_prints():
    wrong = []
    for path in SOURCE:
        cli = "libs/cli" in str(path)
        for node in ast.walk(tree(path)):
            reads = isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv")
            if reads and not cli and path.name not in READERS_OF_THE_ENVIRONMENT:
                wrong.append(f"{place(path, node.lineno)} reads the environment")
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and not cli:
                wrong.append(f"{place(path, node.lineno)} prints")
    assert not wrong, "\n".join(wrong)


def test_no_file_is_named_for_nothing():
    assert not [place(path) for path in SOURCE if path.name in FORBIDDEN_NAMES]


def test_links_in_documents_lead_somewhere():
    broken = []
    for path in FILES:
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:") and not (path.parent / target).exists():
                broken.append(f"{place(path)} -> {target}")
    assert not broken, "\n".join(broken)


def reasons_in_protos() -> set[str]:
    names = set()
    for api in APIS:
        module = f"memoryos.{api}.v1.errors_pb2"
        if importlib.util.find_spec(module) is None:  # an API that raises no reasons of its own
            continue
        enum = importlib.import_module(module).ErrorReason.DESCRIPTOR
        names |= {value.name.removeprefix("ERROR_REASON_") for value in enum.values}
    return names - {"UNSPECIFIED"}


def test_every_reason_in_code_is_listed_in_a_proto():
    listed = reasons_in_protos()
    unlisted = []
    for path in SOURCE:
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ClassDef):
                continue
            for line in node.body:
                names = [t.id for t in getattr(line, "targets", []) if isinstance(t, ast.Name)]
                value = getattr(line, "value", None)
                if "reason" in names and isinstance(value, ast.Constant) and value.value not in listed:
                    unlisted.append(f"{place(path, node.lineno)} {node.name}: {value.value}")
    assert not unlisted, "\n".join(unlisted)


@pytest.mark.parametrize("module_name", PROTO_MODULES)
def test_every_string_and_bytes_field_states_its_class(module_name):
    rules = importlib.import_module("memoryos.type.v1.field_pb2").field
    module = importlib.import_module(module_name)
    unclassified = []
    for message in module.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            textual = field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
            own = module_name != "memoryos.type.v1.field_pb2"
            if own and textual and not field.GetOptions().Extensions[rules].data_class:
                unclassified.append(field.full_name)
    assert not unclassified


def test_every_proto_file_is_looked_at():
    import memoryos

    found = {m.name for m in pkgutil.walk_packages(memoryos.__path__, "memoryos.") if m.name.endswith("_pb2")}
    for api in APIS:
        folder = Path(next(iter(memoryos.__path__))) / api / "v1"
        found |= {f"memoryos.{api}.v1.{path.stem}" for path in folder.glob("*_pb2.py")}
    assert found - {name for name in found if name.endswith("errors_pb2")} == set(PROTO_MODULES)


def test_no_committed_file_names_a_registry_host_or_a_path_of_a_machine():
    hosts = ["deb.deb" + "ian.org", "py" + "pi.org", "pythonhos" + "ted", "registry.npm" + "js", "proxy.go" + "lang"]
    paths = ["/wo" + "rk/main", "/ro" + "ot/."]
    wrong = []
    for path in FILES:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        wrong += [f"{place(path)} names {word}" for word in hosts + paths if word in text]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_left_unfinished():
    pattern = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
    wrong = []
    for path in FILES:
        ours = "libs/protos/src" not in str(path) and path.name != "test_tidy.py"
        if ours and path.suffix in (".py", ".rego", ".sql", ".sh", ".proto"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if pattern.search(line):
                    wrong.append(place(path, number))
    assert not wrong, "\n".join(wrong)


def test_every_crash_point_is_passed_in_code_and_died_at_in_a_test():
    from memoryos_core.crashpoints import CRASH_POINTS

    def mentions(paths: list[Path]) -> str:
        return "\n".join(path.read_text(encoding="utf-8") for path in paths)

    code = mentions([path for path in SOURCE if path.name != "crashpoints.py"])
    tests = mentions([path for path in PYTHON if is_test(path) and path.name != "test_crashpoints.py"])
    for name in CRASH_POINTS:
        assert f'crash_point("{name}")' in code, f"nothing passes {name}"
        assert f'"{name}' in tests, f"no test dies at {name}"


def test_every_kind_of_job_is_described():
    page = (ROOT / "docs" / "reference" / "jobs.md").read_text(encoding="utf-8")
    service = [path for path in SOURCE if "services/memoryfs" in str(path)]
    kinds = {
        kind
        for path in service
        for kind in re.findall(r'^[A-Z_]+: Final = "(memory\.[a-z_]+)"$', path.read_text(encoding="utf-8"), re.M)
    }
    assert {"memory.purge", "memory.merge"} <= kinds
    assert not [kind for kind in kinds if f"`{kind}`" not in page]


def test_every_mutant_still_finds_the_guard_that_it_removes():
    rows = yaml.safe_load((ROOT / "scripts" / "mutants.yaml").read_text(encoding="utf-8"))
    assert len({row["name"] for row in rows}) == len(rows)
    stale = [row["name"] for row in rows if (ROOT / row["file"]).read_text(encoding="utf-8").count(row["old"]) != 1]
    assert not stale


def test_the_two_readmes_have_the_same_shape():
    english, chinese = (ROOT / name for name in ("README.md", "README.zh-CN.md"))
    shape = [re.findall(r"^(#+) ", path.read_text(encoding="utf-8"), re.M) for path in (english, chinese)]
    assert shape[0] == shape[1]
    commands = [
        re.findall(r"^(?:make|mos|\.venv/bin/mos) .*$", p.read_text(encoding="utf-8"), re.M) for p in (english, chinese)
    ]
    assert commands[0] == commands[1]
