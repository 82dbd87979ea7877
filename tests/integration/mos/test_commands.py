"""The commands as a person and as a program uses them, against the real services."""

from __future__ import annotations

import json
import shutil

import pytest

from .conftest import ANSWER, Deployment, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
PATH = "/tenants/acme/memory/episodic/commands"


def test_memory_round_trip_in_both_languages(deployment: Deployment) -> None:
    about = ("--about", "user_123", "--confidence", "0.92", "--time", "2025-07-01", "--tag", "q3")
    chinese = deployment.json("mem", "write", PATH, "客户 A 确认了 Q3 交付计划", *about)["id"]
    english = deployment.json("mem", "write", "episodic/commands", "The spindle of machine 7 was replaced.")["id"]
    assert deployment.mos("mem", "read", PATH, "Q3 交付计划", "--about", "user_123").stdout.count("mem_") == 1
    found = deployment.json("mem", "read", PATH, "Q3 delivery plan")["hits"]
    assert {hit["item"]["id"] for hit in found} == {chinese, english}
    shown = deployment.mos("mem", "get", chinese).stdout
    assert "客户 A 确认了 Q3 交付计划" in shown
    assert "user_123" in shown
    assert [i["id"] for i in deployment.json("mem", "list", PATH, "--tag", "q3")] == [chinese]
    assert deployment.json("mem", "forget", PATH, chinese, english) == {"forgotten_count": 2}
    gone = deployment.mos("mem", "get", chinese)
    assert (gone.returncode, "ITEM_NOT_FOUND" in gone.stderr) == (3, True)
    assert deployment.mos("mem", "restore", PATH, chinese).stdout.strip() == "1 restored"
    assert deployment.json("mem", "get", chinese)["content"] == "客户 A 确认了 Q3 交付计划"


def test_content_from_standard_input_and_the_same_request_twice(deployment: Deployment) -> None:
    text = "first line\nsecond line ⟨日本語⟩"
    first = deployment.mos("mem", "write", PATH, "-", "--request-id", "once", "--json", stdin=text)
    again = deployment.mos("mem", "write", PATH, "-", "--request-id", "once", "--json", stdin=text)
    assert json.loads(first.stdout) == json.loads(again.stdout)
    assert deployment.json("mem", "get", json.loads(first.stdout)["id"])["content"] == text
    other = deployment.mos("mem", "write", PATH, "something else", "--request-id", "once")
    assert (other.returncode, "REQUEST_ID_REUSED" in other.stderr) == (5, True)


def test_who_calls_decides_what_is_there(deployment: Deployment) -> None:
    item = deployment.json("mem", "write", PATH, "only for a", "--user", "sales-a")["id"]
    assert deployment.mos("mem", "get", item, "--user", "sales-a").returncode == 0
    other = deployment.mos("mem", "get", item, "--user", "sales-b", "--json")
    assert other.returncode == 3
    error = json.loads(other.stderr)["error"]
    assert (error["reason"], error["exit_code"]) == ("ITEM_NOT_FOUND", 3)
    abroad = deployment.mos("mem", "read", PATH, "--tenant", "other")
    assert (abroad.returncode, "PATH_NOT_ALLOWED" in abroad.stderr) == (4, True)
    assert deployment.mos("mem", "read", PATH, "--role", "auditor").returncode == 4


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("mem", "read", "nowhere/x"), 2),
        (("mem", "get", "mem_1"), 2),
        (("mem", "write", PATH, "   "), 2),
        (("mem", "write", PATH, "x", "--time", "soon"), 2),
        (("mem", "write", PATH, "x", "--attributes", "[1]"), 2),
        (("mem", "list", PATH, "--state", "gone"), 2),
        (("mem", "forget", PATH), 2),
        (("token", "--role", "root"), 2),
        (("token", "--ttl", "999999"), 2),
        (("token", "--user", "u42", "revoke", "user:u42"), 2),
        (("token", "revoke", "u42"), 2),
        (("token", "exchange", "a/b"), 2),
        (("token", "exchange", "scout", "--audience", "harness"), 2),
        (("skill", "show", "no.such"), 3),
        (("trace", "mem_x"), 2),
        (("logs", "nobody"), 3),
        (("nonsense",), 2),
    ],
)
def test_mistakes_are_one_clear_line_and_their_exit_code(
    deployment: Deployment, arguments: tuple[str, ...], code: int
) -> None:
    done = deployment.mos(*arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_token_by_hand_is_as_good_as_a_made_one(deployment: Deployment) -> None:
    token = deployment.mos("token", "--user", "u42", "--role", "agent", "--group", "sales-east").stdout.strip()
    assert token.count(".") == 2
    assert deployment.mos("mem", "read", PATH, "--token", token).returncode == 0
    forged = deployment.mos("mem", "read", PATH, "--token", token[:-4] + "AAAA")
    assert (forged.returncode, "TOKEN_INVALID" in forged.stderr) == (4, True)


def test_an_agents_token_reaches_what_was_named_until_its_user_is_revoked(deployment: Deployment) -> None:
    ada = ("--user", "ada")
    token = deployment.mos("token", "exchange", "scout", "--read", PATH, *ada).stdout.strip()
    assert deployment.mos("mem", "read", PATH, "--token", token).returncode == 0
    assert deployment.mos("mem", "write", PATH, "x", "--token", token).returncode == 4
    assert "user:ada is revoked since" in deployment.mos("token", "revoke", "user:ada").stdout
    refused = deployment.mos("token", "exchange", "scout", *ada)
    assert (refused.returncode, "mos token restore" in refused.stderr) == (4, True)
    (kept,) = deployment.json("token", "revoked")
    assert kept["subject"] == "user:ada"
    assert deployment.mos("token", "restore", "user:ada").returncode == 0
    assert deployment.mos("token", "exchange", "scout", *ada).returncode == 0
    assert deployment.json("token", "revoked") == []
    assert {key["use"] for key in json.loads(deployment.mos("token", "keys").stdout)["keys"]} == {"subject"}


def test_a_call_is_decided_traced_and_audited(deployment: Deployment) -> None:
    assert {s["name"] for s in deployment.json("skill", "list")} >= {"memory.read", "memory.write"}
    assert deployment.json("skill", "show", "memory.read")["parameters"]["type"] == "object"
    call = deployment.json("call", "memory.read", json.dumps({"path": PATH, "query": "交付"}))
    assert call["state"] == "succeeded"
    decision = deployment.json("decision", "show", call["decision_id"])
    assert (decision["effect"], decision["call_id"]) == ("allow", call["id"])
    assert decision["id"] in deployment.mos("decision", "list", "--call", call["id"]).stdout
    rows = deployment.json("audit", "list", "--id", call["id"])
    assert {row["kind"] for row in rows} >= {"CALL_TOOL", "TOOL_RESULT", "DECISION"}
    tree = deployment.mos("trace", call["trace_id"])
    assert tree.returncode == 0
    assert "tool-gateway" in tree.stdout
    assert "memoryfs" in tree.stdout
    assert call["id"] in deployment.mos("trace", call["id"]).stdout
    verified = deployment.json("audit", "verify")
    assert verified["ok"]
    assert verified["failures"] == []


def test_a_call_is_listed_told_and_can_no_longer_be_withdrawn(deployment: Deployment) -> None:
    call = deployment.json("call", "memory.read", json.dumps({"path": PATH, "query": "交付"}))
    assert call["dispatches"] == 1
    assert call["id"] in deployment.mos("calls", "list", "--skill", "memory.read").stdout
    assert deployment.json("calls", "list", "--state", "unknown") == []
    told = deployment.mos("calls", "show", call["id"]).stdout
    order = ("succeeded", "asked", "memory.read", "decided", f"allow, low risk ({call['decision_id']})", "sent", "once")
    assert sorted(order, key=told.index) == list(order)
    assert deployment.mos("calls", "watch", call["id"]).returncode == 0
    sent = deployment.mos("calls", "cancel", call["id"])
    assert (sent.returncode, "it was sent before: succeeded" in sent.stderr) == (5, True)
    for more in ((), ("--happened", "-m", "seen")):
        done = deployment.mos("calls", "reconcile", call["id"], *more)
        assert (done.returncode, "CALL_NOT_UNKNOWN" in done.stderr) == (5, True)
    assert deployment.mos("calls", "reconcile", call["id"], "--happened", "--role", "tenant-admin").returncode == 2
    others = ("--user", "somebody-else", "--role", "user")
    for command in ("show", "watch", "cancel"):
        assert deployment.mos("calls", command, call["id"], *others).returncode == 3


def test_a_call_is_withdrawn_before_it_comes(deployment: Deployment) -> None:
    assert "never will be" in deployment.mos("calls", "cancel", "--request-id", "too-late").stdout
    late = deployment.mos("call", "memory.read", json.dumps({"path": PATH, "query": "x"}), "--request-id", "too-late")
    assert (late.returncode, "withdrawn" in late.stderr) == (9, True)
    (found,) = deployment.json("calls", "list", "--state", "cancelled")
    assert "withdrawn before it came" in deployment.mos("calls", "show", found["id"]).stdout
    assert deployment.mos("calls", "watch", found["id"]).returncode == 9
    assert deployment.mos("calls", "cancel").returncode == 2


def test_skills_are_found_by_what_they_are_for(deployment: Deployment) -> None:
    hits = deployment.json("skill", "search", "记住", "一件事")["hits"]
    assert {"memory.read", "memory.write"} >= {hit["skill"]["name"] for hit in hits}
    assert "egress" in deployment.mos("skill", "show", "memory.write").stdout


def test_sessions_and_reviews_are_there(deployment: Deployment) -> None:
    session = deployment.mos("session", "create").stdout.strip()
    assert deployment.mos("session", "say", session, "以后华东区的报价都按客户等级走").returncode == 0
    assert "user: 以后华东区的报价都按客户等级走" in deployment.mos("session", "show", session).stdout
    assert deployment.mos("session", "show", session, "--user", "somebody-else").returncode == 3
    assert deployment.json("review", "list") == []
    assert deployment.mos("task", "run", "nobody", "hello", "--session", session).returncode == 3


def test_a_task_runs_to_its_answer_and_can_be_read_back(deployment: Deployment) -> None:
    done = deployment.mos("task", "run", "assistant", "When is Q3 delivered?")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, ANSWER), done.stderr
    task = deployment.json("task", "run", "assistant", "第三季度什么时候交付？")
    assert (task["state"], task["output"]) == ("succeeded", ANSWER)
    steps = deployment.json("task", "steps", task["id"])
    assert [step["kind"] for step in steps] == ["memory_read", "model_call"]
    assert "model_call" in deployment.mos("task", "steps", task["id"], "--full").stdout
    assert ANSWER in deployment.mos("task", "show", task["id"]).stdout
    assert deployment.mos("task", "watch", task["id"]).stdout.splitlines()[-1] == ANSWER
    assert deployment.mos("task", "show", task["id"], "--user", "somebody-else").returncode == 3
    assert deployment.mos("task", "cancel", task["id"]).returncode == 5
    tree = deployment.mos("trace", task["id"]).stdout
    assert all(service in tree for service in ("harness", "harness-worker", "memoryfs"))
    assert "NOT CONNECTED" not in tree


def test_a_task_is_told_as_a_story(deployment: Deployment) -> None:
    task = deployment.json("task", "run", "assistant", "节拍时间 A 线？")
    told = deployment.mos("task", "show", task["id"]).stdout
    order = (
        f"{task['id']}  succeeded", "→ assistant", "“节拍时间 A 线？”", "What it knew", "What it decided", "the model",
        "What it cost", "tokens", f"Its answer\n    {ANSWER}", f"mos trace {task['id']}",
    )  # fmt: skip
    assert sorted(order, key=told.index) == list(order)
    assert [s["kind"] for s in deployment.json("task", "show", task["id"])["step_list"]] == [
        "memory_read",
        "model_call",
    ]
    events = deployment.mos("task", "watch", task["id"], "--json").stdout.splitlines()
    assert [json.loads(line)["sequence"] for line in events] == list(range(1, len(events) + 1))
    assert json.loads(events[-1])["state"] == "succeeded"


def test_sessions_are_listed_and_searched_by_their_user_alone(deployment: Deployment) -> None:
    mine, theirs = ("--user", "张伟"), ("--user", "somebody-else")
    session = deployment.mos("session", "create", *mine).stdout.strip()
    assert deployment.mos("session", "say", session, "齿轮箱 GB-7 什么时候换油？\u202e\x1b[31m", *mine).returncode == 0
    listed = deployment.mos("session", "list", *mine).stdout
    assert session in listed
    assert "张伟" in listed
    found = deployment.mos("session", "search", "换油", "gb-7", *mine).stdout
    assert session in found
    assert "\\u202e" in found
    assert not {"\x1b", "\u202e"} & set(found + deployment.mos("session", "show", session, *mine).stdout)
    (hit,) = deployment.json("session", "search", "GB-7", *mine)
    assert (hit["session_id"], hit["message"]["role"]) == (session, "user")
    for other in (theirs, ("--user", "张伟", "--tenant", "other")):
        assert "nothing in this caller's sessions" in deployment.mos("session", "search", "换油", *other).stdout
        assert session not in deployment.mos("session", "list", *other).stdout
    overseen = deployment.mos("session", "list", "--all-users", "--user", "op").stdout
    assert session in overseen
    assert deployment.mos("session", "list", "--all-users", *mine, "--role", "user").returncode == 4


def test_control_characters_of_others_do_not_reach_the_terminal(deployment: Deployment) -> None:
    item = deployment.json("mem", "write", PATH, "red \x1b[31m\u202e alert")["id"]
    shown = deployment.mos("mem", "get", item).stdout
    assert "\x1b" not in shown
    assert "\\u001b[31m" in shown
    assert deployment.json("mem", "get", item)["content"] == "red \x1b[31m\u202e alert"


def test_agents_are_listed_released_and_taken_back(deployment: Deployment) -> None:
    folder = deployment.data / "agents"
    file, second = folder / "clerk.yaml", folder / "clerk" / "v2.yaml"
    second.parent.mkdir()
    try:
        file.write_text("name: clerk\ndescription: 收发 clerk\ninstructions: one\n", encoding="utf-8")
        second.write_text("name: clerk\ninstructions: two\n", encoding="utf-8")
        assert deployment.mos("agent", "lint", str(folder)).returncode == 0
        until(lambda: "clerk" in {one["name"] for one in deployment.json("agent", "list")["agents"]})
        assert "收发 clerk" in deployment.mos("agent", "list").stdout
        assert deployment.mos("agent", "release", "clerk", "v2").returncode == 2, "it is not said who gets it"
        assert deployment.json("agent", "release", "clerk", "v2", "--all")["releases"][0]["percent"] == 100
        until(lambda: deployment.json("agent", "show", "clerk")["definition"]["instructions"] == "two")
        assert "v2" in deployment.mos("agent", "show", "clerk").stdout
        deployment.json("agent", "back", "clerk")
        until(lambda: deployment.json("agent", "show", "clerk")["definition"]["instructions"] == "one")
        unknown = deployment.mos("agent", "release", "clerk", "v9", "--all")
        assert (unknown.returncode, "no version 'v9'" in unknown.stderr) == (9, True)
        assert deployment.mos("agent", "show", "nobody").returncode == 3

        file.write_text("name: clerk\ninstructions: one\nlimit: {}\n", encoding="utf-8")
        until(lambda: "clerk.yaml: limit" in deployment.json("agent", "list")["files_fault"])
        assert "the last good ones stand" in deployment.mos("agent", "list").stdout
        assert deployment.json("agent", "show", "clerk")["definition"]["instructions"] == "one"
        wrong = deployment.mos("agent", "lint", str(folder))
        assert (wrong.returncode, "clerk.yaml:3" in wrong.stdout) == (9, True)
    finally:
        shutil.rmtree(second.parent)
        file.unlink(missing_ok=True)
        (folder / "releases.yaml").unlink(missing_ok=True)
        until(lambda: not deployment.json("agent", "list")["files_fault"])
