"""`mos policy check|test|try` on bundles of every kind of fault: each is found at its line, with how to mend it."""

from pathlib import Path

import pytest
from memoryos_policy.bundles import default_bundle_dir, default_schema_dir
from memoryos_policy.rules.check import check
from memoryos_policy.rules.check import test as run_tests
from memoryos_policy.rules.evaluate import evaluate
from memoryos_policy.rules.opa_command import OpaCommand, OpaFailed
from memoryos_policy.rules.sample import SampleInvalid, sample_input
from memoryos_testing.opa import opa_binary

SCHEMA = default_schema_dir() / "input.schema.json"
DEMO = {"mes.takt_time", "ticket.get", "ticket.delete", "crm.customer", "refund.create", "mail.send", "group.notify"}
HEAD = 'package memoryos.skills["x.y"]\n\n'
ALLOW = 'allow contains {"code": "yes", "text": "Yes."} if '


@pytest.fixture
def opa() -> OpaCommand:
    return OpaCommand(opa_binary())


class Bundle:
    """A bundle of one skill, x.y, with what a test writes into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.main('default decision := {"decision": "deny"}\n')
        self.rule("visible := true\n")

    def main(self, text: str) -> None:
        self.write("memoryos/main/main.rego", f"package memoryos.main\n\n{text}")
        self.write("memoryos/main/main_test.rego", "package memoryos.main_test\n\ntest_ok if true\n")

    def rule(self, text: str) -> None:
        self.write("memoryos/skills/x.y/x.y.rego", HEAD + text)
        self.write("memoryos/skills/x.y/x.y_test.rego", 'package memoryos.skills_test["x.y"]\n\ntest_ok if true\n')

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle(tmp_path)


async def faults(opa: OpaCommand, bundle: Bundle, skills: set[str] | None = None) -> list[tuple[str, int, str]]:
    found = await check(opa, bundle.root, SCHEMA, skills)
    assert all(finding.text and finding.mend for finding in found)
    return [(finding.file.rsplit("/", 1)[-1], finding.line, finding.rule) for finding in found]


async def test_the_rules_of_the_product_are_sound(opa: OpaCommand) -> None:
    assert await check(opa, default_bundle_dir(), SCHEMA, DEMO) == []
    found = await check(opa, default_bundle_dir(), SCHEMA, DEMO - {"refund.create"})
    assert {finding.rule for finding in found} == {"unknown-skill"}
    assert {finding.file.rsplit("/", 1)[-1] for finding in found} == {
        "refund.create",
        "refund.create.rego",
        "data.json",
    }


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (ALLOW + "{\n\tnot input.resource.properties.blocked\n}\n", ("x.y.rego", 4, "grant-by-absence")),
        (ALLOW + 'not input.resource.properties.state == "locked"\n', ("x.y.rego", 3, "grant-by-absence")),
        ("visible if not input.subject.clearance == 9\n", ("x.y.rego", 3, "grant-by-absence")),
        (
            'deny contains {"code": "no", "text": "No."} if not startswith(input.resource.id, "a")\n',
            ("x.y.rego", 3, "negated-call"),
        ),
        (
            'deny contains {"code": "no", "text": "No."} if {\n\tevery x in input.subject.groups {\n'
            "\t\tnot x in input.subject.roles\n\t}\n}\n",
            ("x.y.rego", 5, "negated-call"),
        ),
        (
            'deny contains {"code": "no", "text": "No."} if {\n\tfalse\n} \nelse_ok if {\n\tcount([1 | not upper('
            "input.subject.user)]) > 0\n}\n",
            ("x.y.rego", 7, "negated-call"),
        ),
        ("allow := true\n", ("x.y.rego", 3, "not-a-set")),
        ('allow contains "yes" if true\n', ("x.y.rego", 3, "result-form")),
        ('deny contains {"code": "no"} if true\n', ("x.y.rego", 3, "result-form")),
        ('manual_review contains {"code": "a", "text": "b"} if true\n', ("x.y.rego", 3, "result-form")),
        (ALLOW + 'input.subject.usr == "x"\n', ("x.y.rego", 3, "rego_type_error")),
        (ALLOW + "input.subject.user == \n", ("x.y.rego", 4, "rego_parse_error")),
        (ALLOW + "{ not y == 1 }\n", ("x.y.rego", 3, "rego_unsafe_var_error")),
        ("import data.memoryos.main\n\nvisible := true\n", ("x.y.rego", 3, "rego_compile_error")),
    ],
)
async def test_faults_are_found_at_their_line(
    opa: OpaCommand, bundle: Bundle, rule: str, fault: tuple[str, int, str]
) -> None:
    bundle.rule(rule)
    assert fault in await faults(opa, bundle)


@pytest.mark.parametrize(
    "rule",
    [
        ALLOW + 'input.action.effect_class == "read"\n',
        'deny contains {"code": "no", "text": "No."} if not input.resource.properties.environment == "test"\n',
        'deny contains {"code": "no", "text": "No."} if not ok\n\nok if startswith(input.resource.id, "a")\n',
        "obligations contains x if some x in [{}]\n",
    ],
)
async def test_what_is_written_positively_is_sound(opa: OpaCommand, bundle: Bundle, rule: str) -> None:
    bundle.rule(rule)
    assert await faults(opa, bundle, {"x.y"}) == []


@pytest.mark.parametrize("default", ["default decision := true", 'default decision := {"decision": "allow"}'])
async def test_the_default_is_a_deny_object(opa: OpaCommand, bundle: Bundle, default: str) -> None:
    bundle.main(default + "\n")
    assert ("main.rego", 3, "default-deny") in await faults(opa, bundle)


async def test_names_of_skills_that_nobody_has(opa: OpaCommand, bundle: Bundle) -> None:
    bundle.rule('visible if input.action.skill == "z"\n')
    bundle.write("memoryos/limits/data.json", '{"refund.crate": {}, "x.y": {}}')
    found = await faults(opa, bundle, {"x.y"})
    assert sorted(found) == [("data.json", 0, "unknown-skill"), ("x.y.rego", 3, "unknown-skill")]
    assert await faults(opa, bundle, {"x.y", "z", "refund.crate"}) == []
    assert ("x.y", 0, "unknown-skill") in await faults(opa, bundle, {"other"})


async def test_rules_without_tests_and_files_that_are_no_rules(opa: OpaCommand, bundle: Bundle) -> None:
    (bundle.root / "memoryos/skills/x.y/x.y_test.rego").unlink()
    assert await faults(opa, bundle) == [("x.y.rego", 0, "no-tests")]
    bundle.write("memoryos/notes.txt", "hello")
    assert await faults(opa, bundle) == [("", 0, "bundle")]


async def test_tests_that_fail_and_tests_that_are_not_there(opa: OpaCommand, bundle: Bundle) -> None:
    passed = await run_tests(opa, bundle.root)
    assert passed.ok
    assert passed.passed == 2
    bundle.write("memoryos/main/main_test.rego", "package memoryos.main_test\n\ntest_no if false\n")
    failed = await run_tests(opa, bundle.root)
    assert not failed.ok
    assert [name.rsplit(".", 1)[-1] for name in failed.failed] == ["test_no"]
    for path in bundle.root.rglob("*_test.rego"):
        path.unlink()
    assert not (await run_tests(opa, bundle.root)).ok


async def test_rules_that_fired_are_named_at_their_line(opa: OpaCommand) -> None:
    given = {"action": {"skill": "refund.create", "effect_class": "keyed"}, "args": {"amount": 5000}}
    evaluation = await evaluate(opa, default_bundle_dir(), sample_input(given))
    assert evaluation.result["decision"] == "manual_review"
    fired = {(f.file, f.head) for f in evaluation.fired}
    assert ("memoryos/skills/refund.create/refund.create.rego", "manual_review contains") in fired
    assert not any(head.startswith("allow contains") for _, head in fired)


async def test_a_rule_that_does_not_compile_cannot_be_tried(opa: OpaCommand, bundle: Bundle) -> None:
    bundle.rule("visible if y\n")
    with pytest.raises(OpaFailed):
        await evaluate(opa, bundle.root, sample_input({}))


@pytest.mark.parametrize("given", [[], {"subject": {"usr": 1}}, {"action": "x"}, {"contxt": {}}])
def test_what_is_no_part_of_an_input_is_refused(given: object) -> None:
    with pytest.raises(SampleInvalid):
        sample_input(given)
