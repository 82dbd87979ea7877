"""What rules may call: values from values. Nothing reaches network, environment, clock or chance, at no time."""

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from memoryos_core.clock import ManualClock
from memoryos_policy.bundles import BundleInvalid, capabilities_file, default_bundle_dir, default_schema_dir
from memoryos_policy.opa import OpaSetup, prepare
from memoryos_policy.rules.check import check
from memoryos_policy.rules.check import test as run_tests
from memoryos_policy.rules.evaluate import evaluate
from memoryos_policy.rules.opa_command import OpaCommand, OpaFailed
from memoryos_policy.rules.sample import sample_input
from memoryos_testing.opa import opa_binary, opa_server

SCHEMA = default_schema_dir() / "input.schema.json"
RULE = 'package memoryos.skills["x.y"]\n\nvisible := true\n\n'
CLOSED = {
    "network": 'http.send({"method": "get", "url": "http://127.0.0.1:1/"}).status_code == 200',
    "names": 'count(net.lookup_ip_addr("localhost")) > 0',
    "environment": "opa.runtime().env",
    "remote schema": 'json.match_schema({}, {"$ref": "http://127.0.0.1:1/"})[0]',
    "remote schema, verified": 'json.verify_schema({"$ref": "http://127.0.0.1:1/"})[0]',
    "other rules": 'rego.parse_module("a.rego", "package a")',
    "clock": "time.now_ns() > 0",
    "chance": 'rand.intn("x", 2) == 0',
    "identifiers": 'uuid.rfc4122("x")',
    "signed requests": 'providers.aws.sign_req({}, {}, 0)',
    "signatures": 'io.jwt.encode_sign({}, {}, {})',
    "log": 'print(input.args)',
    "templates": 'strings.render_template("{{.}}", {}) == ""',
    "all addresses": 'count(net.cidr_expand("0.0.0.0/0")) > 0',
}  # fmt: skip
EVERYWHERE = {
    "body": "allow contains {{}} if {call}\n",
    "comprehension": "allow contains {{}} if count([1 | {call}]) == 1\n",
    "negation": "allow contains {{}} if not {call}\n",
    "function": "f(x) if {call}\n\nallow contains {{}} if f(1)\n",
    "another package": "import data.memoryos.library.away\n\nallow contains {{}} if away.go\n",
}


@pytest.fixture
def opa() -> OpaCommand:
    return OpaCommand(opa_binary())


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    shutil.copytree(default_bundle_dir(), folder)
    return folder


def write(rules: Path, name: str, text: str) -> None:
    path = rules / "memoryos" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def add(rules: Path, call: str, where: str = "body") -> None:
    write(rules, "skills/x.y/x.y.rego", RULE + EVERYWHERE[where].format(call=call))
    write(rules, "library/away/away.rego", f"package memoryos.library.away\n\ngo if {call}\n")


def setup(tmp_path: Path, rules: Path) -> OpaSetup:
    return OpaSetup(
        binary=opa_binary(), run_dir=tmp_path / "run", token_file=tmp_path / "token", port=1, bundle_dir=rules
    )


def served(tmp_path: Path, rules: Path) -> list[str]:
    return prepare(setup(tmp_path, rules), ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize("call", CLOSED.values(), ids=CLOSED)
def test_nothing_but_values_is_served(tmp_path: Path, rules: Path, call: str) -> None:
    add(rules, call)
    with pytest.raises(BundleInvalid, match="undefined function"):
        served(tmp_path, rules)


async def test_nothing_but_values_is_checked_or_tried(rules: Path, opa: OpaCommand) -> None:
    add(rules, CLOSED["network"])
    found = [one for one in await check(opa, rules, SCHEMA, None) if one.text.startswith("undefined function")]
    assert {one.file for one in found} == {"memoryos/skills/x.y/x.y.rego", "memoryos/library/away/away.rego"}
    assert all(one.line and "capabilities.json" in one.mend for one in found)
    with pytest.raises(OpaFailed, match="undefined function"):
        await evaluate(opa, rules, sample_input({"action": {"skill": "x.y"}}))


@pytest.mark.parametrize("where", EVERYWHERE)
def test_it_is_found_wherever_it_stands(tmp_path: Path, rules: Path, where: str) -> None:
    add(rules, CLOSED["network"], where)
    with pytest.raises(BundleInvalid, match=r"undefined function http\.send"):
        served(tmp_path, rules)


async def test_tests_of_rules_reach_nothing_either(rules: Path, opa: OpaCommand) -> None:
    write(rules, "skills/x.y/x.y_test.rego", f"package memoryos.x_test\n\ntest_go if {CLOSED['network']}\n")
    with pytest.raises(OpaFailed, match=r"http\.send"):
        await run_tests(opa, rules)


async def test_a_server_does_not_start_on_such_rules(tmp_path: Path, rules: Path) -> None:
    add(rules, CLOSED["environment"])
    with pytest.raises(RuntimeError, match="OPA ended with 1"):
        async with opa_server(tmp_path, bundle_dir=rules):
            pass
    log = (tmp_path / "opa.log").read_text()
    assert log.startswith("these rules are not served: ")
    assert "undefined function opa.runtime" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a := b\n\nb := a\n", "recursive"),
        ("import data.memoryos.main\n\nvisible if main.decision\n", "recursive"),
        ("visible if {\n", "parse"),
        ("allow contains x if x == y\n", "unsafe"),
        ("visible := " + "[" * 200_000 + "]" * 200_000 + "\n", "parse"),
        ("\xff\xfe", "parse"),
    ],
    ids=["cyclic", "cyclic import", "cut", "unsafe", "deep", "not text"],
)
def test_rules_that_do_not_compile_are_not_served(tmp_path: Path, rules: Path, text: str, fault: str) -> None:
    write(rules, "skills/x.y/x.y.rego", RULE.replace("visible := true\n\n", "") + text)
    with pytest.raises(BundleInvalid, match=fault):
        served(tmp_path, rules)


@pytest.mark.parametrize("package", ["system.authz", "system.opa", "system.log", "other"])
def test_rules_stay_in_their_part_of_the_document(tmp_path: Path, rules: Path, package: str) -> None:
    """A file below memoryos/ that states another package would widen who may ask OPA."""
    write(rules, "skills/x.y/x.y.rego", f"package {package}\n\nallow := true\n")
    with pytest.raises(BundleInvalid, match=r"not permit|root"):
        served(tmp_path, rules)


@pytest.mark.parametrize("where", ["rule", "package"])
def test_a_schema_in_the_comments_of_a_rule_is_not_fetched(tmp_path: Path, rules: Path, where: str) -> None:
    text = f'# METADATA\n# scope: {where}\n# schemas:\n#   - input: {{"$ref": "http://127.0.0.1:1/s.json"}}\n'
    head, body = RULE.split("\n\n", 1)[0], "allow contains {} if input.args.x\n"
    write(rules, "skills/x.y/x.y.rego", f"{text}{head}\n\n{body}" if where == "package" else f"{head}\n\n{text}{body}")
    with pytest.raises(BundleInvalid, match="remote reference loading disabled"):
        served(tmp_path, rules)


def test_the_list_is_of_this_opa_and_lacks_what_is_meant_to_lack() -> None:
    """A new OPA brings built-ins of its own: somebody looks at them before rules may call them."""
    own = json.loads(subprocess.check_output([opa_binary(), "capabilities", "--current"], env={}))
    ours = json.loads(capabilities_file().read_bytes())
    known = {one["name"]: one for one in own["builtins"]}
    listed = {one["name"] for one in ours["builtins"]}
    assert listed <= set(known)
    assert not [name for name in listed if known[name].get("nondeterministic")]
    assert ours["allow_net"] == []
    left_out = {name.split(".")[0] if name.count(".") > 1 else name for name in set(known) - listed}
    assert left_out == {
        "crypto", "crypto.parse_private_keys", "graphql.is_valid", "graphql.parse", "graphql.parse_and_verify",
        "graphql.parse_query", "graphql.parse_schema", "graphql.schema_is_valid", "http.send", "internal.print",
        "internal.test_case", "io", "json.match_schema", "json.verify_schema", "net.cidr_expand", "net.lookup_ip_addr",
        "opa.runtime", "print", "providers", "rand.intn", "rego.parse_module", "strings.render_template", "time.now_ns",
        "trace", "uuid.rfc4122",
    }  # fmt: skip
