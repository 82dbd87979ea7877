"""A task as a story: knew, decided, allowed, cost; sub-agents indented; nothing disguised, nothing cut in two."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_cli.output import Output
from memoryos_cli.task_progress import follow, lines_of
from memoryos_cli.task_story import KINDS, STATES, Told, cost, readable, step_line, story
from memoryos_sdk.calls import Actor
from memoryos_sdk.reviews import Vote
from memoryos_sdk.tasks import Step, Task, TaskEvent, TaskLimits
from rich.cells import cell_len

from .test_call_story import decision, review

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOSTILE = "ok\n\x1b[2Jstate succeeded \u202egnp.exe\u200b"


def task(state: str = "succeeded", **more: Any) -> Task:
    fields: dict[str, Any] = {
        "id": "task_1", "agent": "helper", "agent_version": "abcdef0123456789", "session_id": "ses_1", "state": state,
        "input": "A 线的节拍时间是多少？", "output": "四十二秒 [mem_1]", "error_code": "", "error_message": "",
        "actor": Actor(user="张伟", agent_chain=("helper",)), "attempt": 1, "lease_epoch": 1, "step_count": 1,
        "trace_id": "t1", "create_time": NOW - timedelta(minutes=3), "update_time": NOW,
        "end_time": NOW - timedelta(minutes=2), "limits": TaskLimits(tokens=200_000, steps=40),
    }  # fmt: skip
    return Task(**{**fields, **more})


def step(sequence: int, kind: str, *, given: Any = None, found: Any = None, **more: Any) -> Step:
    fields: dict[str, Any] = {
        "id": f"step_{sequence}", "sequence": sequence, "kind": kind, "state": "done", "target": "", "input": given,
        "output": found, "call_id": "", "decision_id": "", "review_id": "", "item_ids": (), "lease_epoch": 1,
        "create_time": NOW - timedelta(seconds=10), "end_time": NOW - timedelta(seconds=8),
    }  # fmt: skip
    return Step(**{**fields, **more})


def told(**more: Any) -> Told:
    hit = {"id": "mem_1", "content": "A 线节拍 42 秒", "score": 0.91, "trusted": False}
    said = {"id": "msg_1", "session_id": "ses_0", "said_by": "user", "content": "节拍？", "score": 0.5,
            "answer": {"id": "msg_2", "content": "42 s"}}  # fmt: skip
    usage = {"usage": {"input": 900, "output": 100}}
    steps = [
        step(1, "memory_read", target="recall", given={"path": "/tenants/a/m", "query": "节拍"}, found={"hits": [hit]}),
        step(2, "memory_read", target="sessions", given={"query": "节拍"}, found={"hits": [said]}),
        step(3, "model_call", target="m", given={"purpose": "plan"},
             found={"structured": {"steps": [{"do": "问 MES", "expect": "一个秒数"}]}, **usage}),
        step(4, "tool_call", target="mes.takt", given={"arguments": '{"line":"A"}', "try": 1}, state="failed",
             found={"outcome": "FAILED", "code": "timeout", "content": "{}"}, decision_id="dec_1"),
        step(5, "tool_call", target="mes.takt", decision_id="dec_1", review_id="rev_1",
             given={"arguments": '{"line":"A"}', "try": 2, "because": "retry", "of": 4, "wait_s": 1.0},
             found={"outcome": "SUCCEEDED", "content": '{"status":"ok","result":42}'}),
        step(6, "model_call", target="m", given={"purpose": "reflect"},
             found={"structured": {"met": True, "why": "42 是秒数"}, **usage}),
        step(7, "child_task", target="clerk", given={"arguments": '{"task":"x"}'}, found={"outcome": "SUCCEEDED"},
             child_task_id="task_2"),
    ]  # fmt: skip
    votes = (Vote(reviewer="anna", verdict="approve", comment="客户已确认", create_time=NOW),)
    child = Told(task=task(id="task_2", agent="clerk", input="x", output="done"), steps=[])
    return Told(
        task=task(**more), steps=steps, decisions={"dec_1": decision("manual_review")},
        reviews={"rev_1": review("approved", votes=votes)}, children={"task_2": child},
    )  # fmt: skip


def test_it_reads_in_the_order_of_knowing_deciding_and_paying() -> None:
    text = "\n".join(line.text for line in story(told(), NOW))
    order = (
        "task_1  succeeded: ended with an answer", "张伟 → helper", "“A 线的节拍时间是多少？”", "What it knew",
        "[mem_1]  0.91  untrusted  A 线节拍 42 秒", "the user's own conversations",
        "[msg_1 in ses_0]  0.50  user  节拍？", "answered [msg_2]  42 s", "What it decided, and what was allowed",
        "plan 1. 问 MES  → expects 一个秒数", "#4 tool mes.takt  failed  2.0 s", 'asked with {"line":"A"}',
        "failed (timeout)", "decided manual_review, high risk (dec_1)",
        "#5 tool mes.takt, try 2: the same again after 1 s", "reviewed: approved by finance (rev_1)",
        "approve anna: 客户已确认", "looking back", "as expected: 42 是秒数", "#7 sub-agent clerk",
        "        task_2  succeeded", "2,000 tokens of 200,000 (1,800 in, 200 out), 2 model calls",
        "2 tool calls, 1 of them tries after a failure; 7 steps of 40, 1 attempts",
        "60.0 s from being asked to its end",
        "Its answer", "四十二秒 [mem_1]",
    )  # fmt: skip
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)]
    assert places[:21] == sorted(places[:21])
    assert "because" not in text, "reasons are for auditors"


def test_a_task_without_an_answer_says_why() -> None:
    text = [
        line.text for line in story(told(state="dead", output="", error_code="limit_steps", error_message="No."), NOW)
    ]
    assert "    No. (limit_steps)" in text
    assert "Its answer" not in text


def test_what_is_under_way_costs_until_now() -> None:
    assert cost(Told(task=task("thinking", end_time=None), steps=[]))[2] == "180.0 s from being asked until now"


def test_nothing_on_it_can_be_disguised() -> None:
    found = {
        "text": HOSTILE,
        "tool_calls": [{"name": HOSTILE, "arguments": HOSTILE}],
        "outcome": HOSTILE,
        "note": HOSTILE,
    }
    hits = {
        "hits": [{"id": HOSTILE, "content": HOSTILE, "said_by": HOSTILE, "answer": {"id": HOSTILE, "content": HOSTILE}}]
    }
    given = {"arguments": HOSTILE, "query": HOSTILE, "path": HOSTILE, "message": HOSTILE}
    steps = [
        step(1, "memory_read", given=given, found=hits, target=HOSTILE),
        *(step(2, kind, given=given, found=found, target=HOSTILE) for kind in KINDS if kind != "memory_read"),
        step(3, "hand_off", given=given, state="started", target=HOSTILE),
        step(4, "model_call", found={"error": HOSTILE}, target=HOSTILE),
    ]
    hostile = task("dead", input=HOSTILE, output=HOSTILE, agent=HOSTILE, error_code=HOSTILE, error_message=HOSTILE,
                   actor=Actor(user=HOSTILE, agent_chain=(HOSTILE,)))  # fmt: skip
    lines = story(Told(task=hostile, steps=steps), NOW, full=True) + story(Told(task=hostile, steps=steps), NOW)
    text = "".join(line.text for line in lines) + "".join(step_line(one) for one in steps)
    assert not {"\n", "\x1b", "\u202e", "\u200b"} & set(text)
    assert "\\u001b[2J" in text
    assert readable("a\r\nb\u202e") == "a\nb\\u202e"


def test_chinese_is_cut_between_characters_and_within_its_columns() -> None:
    long = step(1, "model_call", found={"text": "节拍时间" * 500}, target="m")
    line = step_line(long, 100)
    assert cell_len(line) < 160
    assert "(2,000 characters)" in line
    assert "\ufffd" not in line


def test_every_state_and_kind_has_words() -> None:
    for words, enum, prefix in (
        (STATES, tasks_pb2.TaskState, "TASK_STATE_"),
        (KINDS, tasks_pb2.StepKind, "STEP_KIND_"),
    ):
        assert {f"{prefix}{name.upper()}" for name in words} == set(enum.keys()) - {f"{prefix}UNSPECIFIED"}


def test_progress_keeps_what_ended_and_says_what_a_person_has_to_do() -> None:
    def event(state: str, found: Step | None = None) -> TaskEvent:
        return TaskEvent(sequence=1, state=state, step=found, create_time=NOW)

    assert lines_of(event("thinking", step(1, "model_call", state="started"))) == []
    assert lines_of(event("thinking", step(1, "model_call", found={"text": "好"}, target="m"))) == [
        "thinking        #1 the model m  done  2.0 s  “好”"
    ]
    waits = step(2, "tool_call", state="started", review_id="rev_1", target="refund.pay")
    assert "mos review show rev_1" in lines_of(event("waiting_review", waits))[1]
    assert "mos task resume" in lines_of(event("paused"))[1]
    assert lines_of(event("succeeded")) == ["succeeded       ended with an answer"]


async def test_an_interrupt_leaves_the_task_and_says_how_to_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    shown = asyncio.Event()

    class Tasks:
        async def watch(self, id: str, *, after_sequence: int) -> AsyncIterator[TaskEvent]:
            yield TaskEvent(sequence=7, state="thinking", step=None, create_time=NOW)
            shown.set()
            await asyncio.Event().wait()

    class Client:
        tasks = Tasks()

    class Caller:
        output = Output(as_json=False)

    following = asyncio.create_task(follow(Caller(), Client(), "task_1"))  # type: ignore[arg-type]
    await shown.wait()
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    captured = capsys.readouterr()
    assert "thinking" in captured.out
    assert "mos task watch task_1 --after 7" in captured.err
