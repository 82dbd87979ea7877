"""`mos logs`: the last lines, going on as more is written, over a rotation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from memoryos_cli.caller import Caller, Defaults
from memoryos_cli.commands.local import _follow
from memoryos_cli.datafolder import DataFolder
from memoryos_cli.main import GROUPS, build, run
from memoryos_cli.output import Output


def test_the_last_lines_of_one_or_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "policy.log").write_text("".join(f"行 {n}\n" for n in range(30)))
    (tmp_path / "logs" / "opa.log").write_bytes(b"\xff\x1b[2J\n")
    environ = {"MEMORYOS_DATA": str(tmp_path)}
    assert run(["logs", "policy", "-n", "2"], environ) == 0
    assert capsys.readouterr().out == "行 28\n行 29\n"
    assert run(["logs", "-n", "1", "--json"], environ) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"child": "opa", "line": "\ufffd\x1b[2J"}, {"child": "policy", "line": "行 29"}]
    assert run(["logs", "opa"], environ) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert run(["logs", "../secrets/x"], environ) == 3


def test_following_gives_whole_lines_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    caller = Caller(
        data=DataFolder(tmp_path),
        output=Output(as_json=False),
        user="",
        tenant="",
        roles=(),
        groups=(),
        clearance=0,
        given_token="",
        defaults=Defaults(data=tmp_path, user="", environ={}, arguments=()),
    )
    file = tmp_path / "policy.log"
    file.write_bytes("one\nhalf 客".encode()[:-1])
    end = _follow(caller, "policy", file, 0, named=False)
    assert end == 4
    assert _follow(caller, "policy", file, end, named=False) == end
    file.write_bytes("one\nhalf 客\n".encode())
    end = _follow(caller, "policy", file, end, named=True)
    file.write_bytes(b"new\n")  # rotated
    assert _follow(caller, "policy", file, end, named=False) == 4
    assert capsys.readouterr().out == "one\npolicy         half 客\nnew\n"


def test_every_command_loads_alone_under_its_name() -> None:
    for words in GROUPS.values():
        for word in words:
            app = build(word)
            names = [c.name for c in app.registered_commands] + [g.name for g in app.registered_groups]
            assert word in names
    everything = build()
    names = {c.name for c in everything.registered_commands} | {g.name for g in everything.registered_groups}
    assert names == {word for words in GROUPS.values() for word in words}
