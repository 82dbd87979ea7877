"""What comes next, on paper: react and plan_execute, failures, and runs that are cut anywhere."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memoryos_harness.domain.actions import Because, Die, Purpose, Respond
from memoryos_harness.domain.agents import Agent, Limits, OnFailure
from memoryos_harness.domain.failures import CERTAIN, WAIT_S_MAX, WORTH_A_RETRY
from memoryos_harness.domain.journal_forms import because_of, position_of, purpose_of, skill_of, stop_of
from memoryos_harness.domain.outcomes import CallOutcome, CallOutcomeKind, told_message
from memoryos_harness.domain.prompt import conversation
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.window import Window
from memoryos_models.ports import Role

from .simulation import OK, REFUSED, UNKNOWN, Simulation, calls, failed, says

BROAD = Limits(steps=500, calls=500, tokens=10_000_000)


def agent(**fields) -> Agent:
    return Agent(name="a", instructions="i", **{"skills": ("a.b", "a.c"), "limits": BROAD, **fields})


def asks_once(count, purpose):
    return calls(("a__b", {"x": 1})) if count == 0 else says("done")


def tries(run) -> list[tuple]:
    """Skill, try, because, of and wait of every tool step."""
    given = [s.input for s in run.steps if s.kind is StepKind.TOOL_CALL]
    return [(g["skill"], g["try"], g.get("because"), g.get("of"), g.get("wait_s")) for g in given]


def outcomes(run) -> list[str]:
    return [s.output["outcome"] for s in run.steps if s.kind is StepKind.TOOL_CALL]


# Failures


def test_a_call_that_failed_for_certain_is_made_again_after_waits_that_double() -> None:
    run = Simulation(agent(), asks_once, lambda step, count: failed("not_sent") if count < 2 else OK)
    assert run.run() == Respond("done")
    assert tries(run) == [
        ("a.b", 1, None, None, None),
        ("a.b", 2, "retry", 2, 1.0),
        ("a.b", 3, "retry", 3, 2.0),
    ]
    assert len({s.id for s in run.steps}) == len(run.steps)  # a step, and so a call, of its own each


def test_then_other_skills_are_asked_once_each_and_then_the_model_is_told() -> None:
    preset = {"a.b": OnFailure(retries=1, backoff_s=0.5, other_skills=("a.c", "not.offered"))}
    run = Simulation(agent(on_failure=preset), asks_once, lambda step, count: failed("upstream_unavailable"))
    assert run.run() == Respond("done")
    assert tries(run) == [
        ("a.b", 1, None, None, None),
        ("a.b", 2, "retry", 2, 0.5),
        ("a.c", 3, "other_skill", 3, 0.0),
    ]
    shown = conversation(run.agent, (), "q", run.steps)
    answers = [json.loads(m.content) for m in shown if m.role is Role.TOOL]
    assert [(a["status"], a["code"]) for a in answers] == [("failed", "upstream_unavailable")]  # the last try's


def test_a_wait_has_an_end() -> None:
    preset = {"*": OnFailure(retries=10, backoff_s=60)}
    run = Simulation(agent(on_failure=preset), asks_once, lambda step, count: failed("not_sent"))
    run.run()
    assert [wait for *_, wait in tries(run)][1:6] == [60, 120, 240, 480, WAIT_S_MAX]


def test_a_call_that_may_be_repeated_is_made_again_though_it_is_not_known_whether_it_happened() -> None:
    preset = {"*": OnFailure(retries=2, backoff_s=0.5, other_skills=("a.c",))}
    run = Simulation(agent(on_failure=preset), asks_once, lambda s, n: UNKNOWN if n < 2 else OK, repeatable=("a.b",))
    run.run()
    assert tries(run) == [
        ("a.b", 1, None, None, None),
        ("a.b", 2, "retry", 2, 0.5),
        ("a.b", 3, "retry", 3, 1.0),
    ]
    never = Simulation(agent(on_failure=preset), asks_once, lambda s, n: UNKNOWN, repeatable=("a.b",))
    never.run()
    assert [outcome for outcome, *_ in tries(never)] == ["a.b"] * 3, "and no other skill is asked: it may have happened"


@pytest.mark.parametrize("outcome", [UNKNOWN, REFUSED, CallOutcome(kind=CallOutcomeKind.INVALID, message="/x: no")])
def test_what_did_not_fail_for_certain_is_never_tried_again(outcome) -> None:
    preset = {"*": OnFailure(retries=5, other_skills=("a.c",), then="hand_off")}
    run = Simulation(agent(on_failure=preset), asks_once, lambda step, count: outcome)
    assert run.run() == Respond("done")
    assert tries(run) == [("a.b", 1, None, None, None)]
    assert not any(step.kind is StepKind.HAND_OFF for step in run.steps)


@pytest.mark.parametrize("code", ["upstream_status", "rate_limited", "network_refused", "no_upstream_identity"])
def test_what_will_not_pass_is_not_made_again_but_another_skill_may_do_it(code) -> None:
    run = Simulation(
        agent(on_failure={"*": OnFailure(other_skills=("a.c",))}), asks_once, lambda step, count: failed(code)
    )
    run.run()
    assert [because for _, _, because, _, _ in tries(run)] == [None, "other_skill"]


def test_a_code_that_is_not_known_proves_nothing() -> None:
    run = Simulation(
        agent(on_failure={"*": OnFailure(other_skills=("a.c",))}), asks_once, lambda step, count: failed("brand_new")
    )
    run.run()
    assert len(tries(run)) == 1
    assert WORTH_A_RETRY < CERTAIN
    assert "did_not_happen" not in CERTAIN  # looked up after a doubt: an upstream may still be at it


def test_the_skills_fallback_ends_its_retries_and_is_told() -> None:
    run = Simulation(agent(), asks_once, lambda step, count: failed("not_sent", "Call the desk.", fallback=True))
    run.run()
    assert len(tries(run)) == 1
    (answer,) = [m for m in conversation(run.agent, (), "q", run.steps) if m.role is Role.TOOL]
    assert json.loads(answer.content)["message"] == "Call the desk."


def test_a_person_takes_over_and_the_note_is_the_answer_of_the_call() -> None:
    preset = {"a.b": OnFailure(retries=0, then="hand_off")}
    run = Simulation(agent(on_failure=preset), asks_once, lambda step, count: failed("not_sent", "Not reached."))
    assert run.run() == Respond("done")
    (step,) = [s for s in run.steps if s.kind is StepKind.HAND_OFF]
    assert (step.input["skill"], step.input["code"], step.input["message"]) == ("a.b", "not_sent", "Not reached.")
    (answer,) = [m for m in conversation(run.agent, (), "q", run.steps) if m.role is Role.TOOL]
    assert json.loads(answer.content) == {"status": "person", "note": "done by hand"}
    assert answer.tool_call_id == "c0"


def test_the_file_may_say_that_the_task_fails() -> None:
    preset = {"*": OnFailure(retries=0, then="fail")}
    end = Simulation(agent(on_failure=preset), asks_once, lambda step, count: failed("upstream_status")).run()
    assert isinstance(end, Die)
    assert end.code == "tool_failed"


def test_other_arguments_of_the_model_are_a_try_after_the_one_that_failed() -> None:
    def model(count, purpose):
        return calls(("a__b", {"x": count})) if count < 2 else says("done")

    run = Simulation(agent(), model, lambda step, count: failed("upstream_status") if count == 0 else OK)
    run.run()
    assert tries(run) == [("a.b", 1, None, None, None), ("a.b", 2, "other_arguments", 2, 0.0)]


def test_equal_failures_stop_the_loop_once_told_and_then_for_good() -> None:
    run = Simulation(
        agent(same_failures=3), lambda count, purpose: calls(("a__b", {"x": 1, "y": 2})), lambda s, n: REFUSED
    )
    end = run.run()
    assert isinstance(end, Die)
    assert end.code == "same_failures"
    assert outcomes(run) == ["REFUSED"] * 3 + ["STOPPED"]
    assert "Do not ask for it again" in told_message(run.steps[-2].output)
    handed = Simulation(
        agent(same_failures=1, on_failure={"a.b": OnFailure(then="hand_off")}),
        lambda count, purpose: calls(("a__b", {})) if count < 3 else says("done"),
        lambda s, n: REFUSED,
    )
    handed.run()
    assert [s.kind for s in handed.steps if s.kind in (StepKind.TOOL_CALL, StepKind.HAND_OFF)] == [
        StepKind.TOOL_CALL, StepKind.TOOL_CALL, StepKind.HAND_OFF,
    ]  # fmt: skip


def test_equal_is_what_has_the_same_digest_and_a_success_begins_anew() -> None:
    texts = ['{"x": 1, "y": 2}', '{"y":2,"x":1}', '{"x": 1, "y": 3}']

    def model(count, purpose):
        if count >= len(texts):
            return says("done")
        reply = calls(("a__b", {}))
        reply["tool_calls"][0]["arguments"] = texts[count]
        return reply

    run = Simulation(agent(same_failures=1), model, lambda s, n: REFUSED)
    run.run()
    assert outcomes(run) == ["REFUSED", "STOPPED", "REFUSED"]
    flaky = Simulation(
        agent(same_failures=2),
        lambda count, purpose: calls(("a__b", {})) if count < 6 else says("done"),
        lambda s, n: OK if n % 2 else REFUSED,
    )
    flaky.run()
    assert "STOPPED" not in outcomes(flaky)


def test_what_may_have_happened_is_not_done_again_in_the_task() -> None:
    run = Simulation(
        agent(same_failures=10),
        lambda count, purpose: calls(("a__b", {"x": 1}), ("a__b", {"x": 2})) if count == 0 else
        calls(("a__b", {"x": 1})) if count == 1 else says("done"),
        lambda s, n: UNKNOWN,
    )  # fmt: skip
    assert run.run() == Respond("done")
    assert outcomes(run) == ["UNKNOWN", "UNKNOWN", "STOPPED"]


def test_another_skill_is_not_asked_for_what_it_may_have_done_already() -> None:
    def model(count, purpose):
        return calls(("a__c" if count == 0 else "a__b", {"x": 1})) if count < 2 else says("done")

    run = Simulation(
        agent(on_failure={"*": OnFailure(retries=0, other_skills=("a.c",))}),
        model,
        lambda s, n: UNKNOWN if n == 0 else failed("not_sent"),
    )
    assert run.run() == Respond("done")
    assert [skill for skill, *_ in tries(run)] == ["a.c", "a.b"]


def test_what_was_done_with_an_answer_that_cannot_be_read_is_not_done_again_to_read_it() -> None:
    unreadable = CallOutcome(kind=CallOutcomeKind.SUCCEEDED, result={}, code="result_invalid", message="It was done.")
    run = Simulation(
        agent(),
        lambda count, purpose: calls(("a__b", {"x": count // 2})) if count < 3 else says("done"),
        lambda s, n: unreadable,
    )
    assert run.run() == Respond("done")
    assert outcomes(run) == ["SUCCEEDED", "STOPPED", "SUCCEEDED"]
    answers = [json.loads(m.content) for m in conversation(run.agent, (), "q", run.steps) if m.role is Role.TOOL]
    assert answers[0]["message"] == "It was done."


def test_an_unknown_tool_asked_for_again_and_again_ends() -> None:
    end = Simulation(agent(), lambda count, purpose: calls(("nope", {}))).run()
    assert isinstance(end, Die)
    assert end.code == "same_failures"


# plan_execute

PLAN = {"steps": [{"do": "look", "expect": "a number", "skill": "a.b"}, {"do": "tell", "expect": "told"}]}


def planner(*verdicts, plan=PLAN, bad=0):
    """Plans, acts with one call a step, and judges as told."""
    left, wrong = list(verdicts), [bad]

    def model(count, purpose):
        match purpose:
            case Purpose.PLAN:
                if wrong[0]:
                    wrong[0] -= 1
                    return says('{"steps": [{"do": "x"}]}')
                return says(json.dumps(plan))
            case Purpose.REFLECT:
                met = left.pop(0) if left else True
                return says(json.dumps({"met": met, "why": "" if met else "code not_sent"}))
            case Purpose.ANSWER:
                return says("the answer")
        return says("did it")

    return model


def purposes(run) -> list[str]:
    return [str(purpose_of(s)) for s in run.steps if s.kind is StepKind.MODEL_CALL]


def test_a_plan_is_done_step_by_step_and_compared() -> None:
    run = Simulation(agent(strategy="plan_execute"), planner())
    assert run.run() == Respond("the answer")
    assert purposes(run) == ["plan", "act", "reflect", "act", "reflect", "answer"]
    said = [s.input.get("say", "") for s in run.steps]
    assert "JSON Schema" in said[0]
    assert "Step 1 of 2: look" in said[1]
    assert "Tool meant for it: a.b" in said[1]
    assert "Expected result: a number" in said[2]
    assert "Every step of the plan is done." in said[-1]


def test_what_was_not_met_is_planned_anew_so_often_and_then_answered_honestly() -> None:
    run = Simulation(agent(strategy="plan_execute", revisions=1), planner(False, False))
    assert run.run() == Respond("the answer")
    assert purposes(run) == ["plan", "act", "reflect", "plan", "act", "reflect", "answer"]
    said = [s.input.get("say", "") for s in run.steps]
    assert "code not_sent" in said[3]
    assert "what could not be done" in said[-1]
    nothing_left = Simulation(agent(strategy="plan_execute"), planner(False, plan={"steps": []}))
    assert nothing_left.run() == Respond("the answer")
    assert purposes(nothing_left) == ["plan", "answer"]


def test_a_plan_that_is_none_is_asked_for_again_with_the_reason() -> None:
    run = Simulation(agent(strategy="plan_execute"), planner(bad=2))
    assert run.run() == Respond("the answer")
    assert purposes(run)[:4] == ["plan", "plan", "plan", "act"]
    assert "/steps/0: required" in run.steps[1].input["say"]
    foreign = Simulation(
        agent(strategy="plan_execute"), planner(plan={"steps": [{"do": "x", "expect": "y", "skill": "rm.rf"}]})
    )
    foreign.finish(foreign.begin(foreign.next()))
    assert foreign.steps[0].output["problem"] == "/steps/0/skill: there is no tool of this name"


def test_a_step_of_the_plan_may_call_tools() -> None:
    acts = iter([calls(("a__b", {})), says("did it"), says("did it")])
    plan = planner()
    run = Simulation(
        agent(strategy="plan_execute"),
        lambda count, purpose: next(acts) if purpose is Purpose.ACT else plan(count, purpose),
    )
    run.run()
    assert [s.kind for s in run.steps[:5]] == [
        StepKind.MODEL_CALL, StepKind.MODEL_CALL, StepKind.TOOL_CALL, StepKind.MODEL_CALL, StepKind.MODEL_CALL,
    ]  # fmt: skip
    assert purposes(run)[:4] == ["plan", "act", "act", "reflect"]


# Structured answers

NUMBER = {
    "type": "object", "required": ["n", "at"], "additionalProperties": False,
    "properties": {"n": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
}  # fmt: skip


@pytest.mark.parametrize("strategy", ["react", "plan_execute"])
def test_a_structured_answer_is_repaired_with_pointer_and_rule_and_comes_out_canonical(strategy) -> None:
    texts = iter(["no JSON", '{"n": 1, "at": "yesterday"}', '```json\n{"at": "2026-01-01T00:00:00Z", "n": 1}\n```'])
    plan = planner()
    planned = set() if strategy == "react" else {Purpose.PLAN, Purpose.ACT, Purpose.REFLECT}
    run = Simulation(
        agent(output_schema=NUMBER, strategy=strategy),
        lambda count, purpose: plan(count, purpose) if purpose in planned else says(next(texts)),
    )
    assert run.run() == Respond('{"at":"2026-01-01T00:00:00Z","n":1}')
    asked = [s.input.get("say", "") for s in run.steps if s.kind is StepKind.MODEL_CALL]
    assert "not one JSON value" in asked[-2]
    assert "/at: format" in asked[-1]
    assert purposes(run)[-2:] == ["answer", "answer"]


# The window


def test_the_oldest_turns_are_put_away_whole_and_the_newest_stays() -> None:
    run = Simulation(
        agent(),
        lambda count, purpose: calls(("a__b", {"n": count}), ("a__c", {"n": count})) if count < 8 else says("done"),
        lambda s, n: CallOutcome(kind=CallOutcomeKind.SUCCEEDED, result="x" * 2000),
        window=Window(tokens=3000, always=100),
    )
    assert run.run() == Respond("done")
    pages = [s for s in run.steps if s.kind is StepKind.PAGE_OUT]
    assert pages
    assert [p.input["from"] for p in pages] == sorted(p.input["from"] for p in pages)
    for length in range(len(run.steps) + 1):
        shown = conversation(run.agent, (), "q", run.steps[:length])
        asked = [call.id for m in shown for call in m.tool_calls]
        answered = [m.tool_call_id for m in shown if m.role is Role.TOOL]
        assert Counter(asked) == Counter(answered)
    shown = conversation(run.agent, (), "q", run.steps[:-1])
    assert "q" in [m.content for m in shown]
    assert sum(len(m.content) for m in shown) < 20_000


def test_the_newest_turn_stays_in_a_window_that_is_too_small_for_it() -> None:
    run = Simulation(
        agent(),
        lambda count, purpose: calls(("a__b", {"n": count})) if count < 4 else says("done"),
        window=Window(tokens=10, always=100),
    )
    assert run.run() == Respond("done")
    for length, step in enumerate(run.steps):
        if step.kind is StepKind.MODEL_CALL and length:
            asked = [
                c.arguments_json for m in conversation(run.agent, (), "q", run.steps[:length]) for c in m.tool_calls
            ]
            newest = [s for s in run.steps[:length] if s.kind is StepKind.TOOL_CALL][-1]
            assert asked[-1] == newest.input["arguments"]
            assert len(asked) <= 2  # it, and where the others are


def test_an_endpoint_that_finds_it_too_long_leads_to_the_same() -> None:
    run = Simulation(
        agent(),
        lambda count, purpose: {"error": "model_context_exceeded"} if count == 4 else
        calls(("a__b", {"n": count})) if count < 6 else says("done"),
    )  # fmt: skip
    assert run.run() == Respond("done")
    (page,) = [s for s in run.steps if s.kind is StepKind.PAGE_OUT]
    assert page.input == {"from": 1, "to": 4}
    hopeless = Simulation(agent(), lambda count, purpose: {"error": "model_context_exceeded"}).run()
    assert isinstance(hopeless, Die)
    assert hopeless.code == "model_context_exceeded"


def test_a_step_of_the_plan_that_was_put_away_is_told_again() -> None:
    plan = planner()
    run = Simulation(
        agent(strategy="plan_execute"),
        lambda count, purpose: (
            calls(("a__b", {"n": count})) if purpose is Purpose.ACT and count < 9 else plan(count, purpose)
        ),
        lambda s, n: CallOutcome(kind=CallOutcomeKind.SUCCEEDED, result="x" * 2000),
        window=Window(tokens=2000, always=100),
    )
    run.run()
    for length, step in enumerate(run.steps):
        if step.kind is StepKind.MODEL_CALL and purpose_of(step) is Purpose.ACT:
            shown = [m.content for m in conversation(run.agent, (), "q", run.steps[:length])]
            assert any("of 2: " in text for text in [*shown, step.input.get("say", "")]), length


# Runs that are cut

CODES = st.sampled_from([OK, OK, failed("not_sent"), failed("upstream_status"), UNKNOWN, REFUSED])
REPLY = st.one_of(
    st.just(says("done")),
    st.lists(
        st.tuples(st.sampled_from(["a__b", "a__c", "nope"]), st.sampled_from([{}, {"x": 1}])), min_size=1, max_size=3
    ).map(lambda asked: calls(*asked)),
)
JSON_REPLY = st.sampled_from(
    ["?", json.dumps(PLAN), '{"steps": []}', '{"met": true, "why": ""}', '{"met": false, "why": "no"}']
)
PRESETS = st.builds(
    OnFailure,
    retries=st.integers(0, 2),
    backoff_s=st.just(1.0),
    other_skills=st.sampled_from([(), ("a.c",)]),
    then=st.sampled_from(["tell", "hand_off", "fail"]),
)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["react", "plan_execute"]),
    st.lists(REPLY, min_size=1, max_size=8),
    st.lists(JSON_REPLY, min_size=1, max_size=6),
    st.lists(CODES, min_size=1, max_size=12),
    PRESETS,
    st.integers(1, 3),
    st.sampled_from([600, 100_000]),
)
def test_a_run_that_is_cut_anywhere_goes_on_as_if_it_was_not(
    strategy, replies, jsons, answers, preset, same_failures, tokens
) -> None:
    def model(count, purpose):
        if purpose is Purpose.ACT:
            return replies[count % len(replies)] if count < 12 else says("done")
        return says("the answer") if purpose is Purpose.ANSWER else says(jsons[count % len(jsons)])

    file = agent(
        strategy=strategy, on_failure={"*": preset}, same_failures=same_failures, limits=Limits(steps=60, calls=40)
    )
    run = Simulation(file, model, lambda step, n: answers[n % len(answers)], window=Window(tokens=tokens, always=50))
    end = run.run()
    check_tries(run, preset, same_failures)
    for length in range(len(run.steps) + 1):  # one step from every cut: the rest follows by induction
        begun = run.cut(length, started=True)
        if length:
            begun.step()
            assert begun.steps == run.steps[:length]
        again = run.cut(length, started=False)
        assert again.step() == (end if length == len(run.steps) else None)
        assert again.steps == run.steps[: length + 1]


def check_tries(run, preset, same_failures) -> None:
    """What holds of every journal, whatever model and tools did."""
    tools = [s for s in run.steps if s.kind is StepKind.TOOL_CALL]
    by_sequence = {s.sequence: s for s in run.steps}
    doubtful: set[tuple[str, str]] = set()
    for step in tools:
        call = (skill_of(step), json.dumps(json.loads(step.input["arguments"]), sort_keys=True))
        if stop_of(step) is not None:
            continue
        assert call not in doubtful  # what may have happened is not done again
        if step.output["outcome"] == "UNKNOWN":
            doubtful.add(call)
        because = because_of(step)
        if because is not None:
            before = by_sequence[step.input["of"]]
            assert before.state is StepState.FAILED
            assert before.output["outcome"] in ("FAILED", "INVALID")
            if position_of(before) == position_of(step):
                assert before.output["code"] in (WORTH_A_RETRY if because is Because.RETRY else CERTAIN)
    for place, made in Counter(position_of(s) for s in tools).items():
        assert made <= 1 + preset.retries + len(preset.other_skills), place
