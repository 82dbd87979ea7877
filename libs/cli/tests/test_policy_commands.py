"""`mos policy`: exit codes and what is printed, with the real OPA and no service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from memoryos_cli.main import run

FAULTY = 'package memoryos.skills["x.y"]\n\nallow := true\n'


@pytest.fixture
def mos(tmp_path, capfd):
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["policy", *arguments], {"MEMORYOS_DATA": str(tmp_path / "data")})
        said = capfd.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    for name, text in (("x.y.rego", FAULTY), ("x.y_test.rego", 'package memoryos.skills_test["x.y"]\n')):
        path = tmp_path / "rules" / "memoryos" / "skills" / "x.y" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "rules"


def test_the_rules_that_come_with_the_product_are_sound_and_tested(mos):
    code, out, _ = mos("check")
    assert (code, out.strip()) == (0, "the rules are sound")
    code, out, _ = mos("test")
    assert code == 0
    assert "100 % of the lines covered" in out


def test_a_fault_is_named_with_file_line_and_how_to_mend_it(mos, faulty):
    code, out, err = mos("check", "--bundle", str(faulty))
    assert code == 9
    assert "memoryos/skills/x.y/x.y.rego:3: allow is one value and not a set [not-a-set]" in out
    assert "write `allow contains" in out
    assert "RULES_FAULTY" in err
    code, out, _ = mos("check", "--bundle", str(faulty), "--json")
    assert code == 9
    assert {one["rule"] for one in json.loads(out)} >= {"not-a-set"}


def test_no_test_is_a_failure(mos, faulty):
    code, _, err = mos("test", "--bundle", str(faulty))
    assert code == 9
    assert "no test ran" in err


def test_skills_that_nobody_has_registered(mos, tmp_path):
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "a.yaml").write_text("name: refund.create\n")
    code, out, _ = mos("check", "--skills", str(tmp_path / "skills"))
    assert code == 9
    assert "no skill is called 'ticket.delete' [unknown-skill]" in out
    assert "refund.create" not in out


def test_a_call_is_tried_and_not_made(mos):
    code, out, _ = mos("try", "refund.create", '{"amount": 5000}', "--input", '{"action": {"effect_class": "keyed"}}')
    assert code == 0
    assert out.startswith("manual_review")
    assert "refund_above_limit" in out
    assert "refund.create.rego:" in out


@pytest.mark.parametrize(
    "arguments",
    [("x.y", "no json"), ("x.y", "[]"), ("x.y", "{}", "--input", "{"), ("x.y", "{}", "--input", '{"actr": {}}')],
)
def test_what_is_no_call_is_refused(mos, arguments):
    code, out, err = mos("try", *arguments)
    assert code in (2, 9)
    assert out == ""
    assert err.startswith("error: ")
