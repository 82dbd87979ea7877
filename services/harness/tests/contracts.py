"""What every adapter of the ports ToolBox and MemoryReader must do. Subclass and give the fixtures."""

import pytest
from memoryos_core.errors import DependencyUnavailable, NotAllowed
from memoryos_harness.domain.outcomes import CallOutcomeKind
from memoryos_harness.errors import LeaseLost
from memoryos_harness.ports import RecalledItem

PLACE = "/tenants/acme/memory/episodic/u42"


class ToolBoxContract:
    """Fixtures: `toolbox` (the adapter), `tools` (what stands behind it), `token` (a function of task id)."""

    async def test_skills_have_what_a_model_needs(self, toolbox, token) -> None:
        skills = await toolbox.list_skills(token())
        assert {"mes.takt", "refund.pay"} <= {skill.name for skill in skills}
        for skill in skills:
            assert skill.description
            assert skill.parameters["type"] == "object"

    async def test_the_same_request_id_is_the_same_call(self, toolbox, tools, token) -> None:
        outcomes = [await self.call(toolbox, token, "mes.takt", "step_1") for _ in range(3)]
        assert {outcome.kind for outcome in outcomes} == {CallOutcomeKind.SUCCEEDED}
        assert len({outcome.ids.call_id for outcome in outcomes}) == 1
        assert outcomes[0].result == {"takt_s": 42, "asked": {"line": "A"}}
        assert tools.effects == {"mes.takt": 1}
        await self.call(toolbox, token, "mes.takt", "step_2")
        assert tools.effects == {"mes.takt": 2}

    async def test_bad_arguments_and_unknown_skills_are_outcomes(self, toolbox, tools, token) -> None:
        for skill, arguments in (
            ("mes.takt", b'{"line": 7}'),
            ("nope", b"{}"),
            ("mes.takt", b'{"line": "A", "line": "B"}'),
        ):
            outcome = await self.call(toolbox, token, skill, "step_1", arguments)
            assert outcome.kind is CallOutcomeKind.INVALID, (skill, arguments)
            assert outcome.message
        assert not tools.effects

    async def test_a_refusal_has_a_safe_sentence(self, toolbox, tools, token) -> None:
        outcome = await self.call(toolbox, token, "ticket.delete", "step_1")
        assert outcome.kind is CallOutcomeKind.REFUSED
        assert outcome.message == "This ticket may not be deleted."
        assert not tools.effects

    async def test_a_parked_call_runs_once_when_it_was_approved(self, toolbox, tools, token) -> None:
        first = await self.call(toolbox, token, "refund.pay", "step_1")
        again = await self.call(toolbox, token, "refund.pay", "step_1")
        assert first.kind is again.kind is CallOutcomeKind.PARKED
        assert first.ids == again.ids
        assert first.ids.review_id
        assert not first.ended
        tools.approved.add("step_1")
        for _ in range(2):
            done = await self.call(toolbox, token, "refund.pay", "step_1")
            assert done.kind is CallOutcomeKind.SUCCEEDED
        assert tools.effects == {"refund.pay": 1}

    async def test_a_refused_review_is_a_refusal(self, toolbox, tools, token) -> None:
        await self.call(toolbox, token, "refund.pay", "step_1")
        tools.denied.add("step_1")
        outcome = await self.call(toolbox, token, "refund.pay", "step_1")
        assert outcome.kind is CallOutcomeKind.REFUSED

    async def test_an_unknown_outcome_stays_unknown_and_is_not_repeated(self, toolbox, tools, token) -> None:
        for _ in range(2):
            assert (await self.call(toolbox, token, "mail.send", "step_1")).kind is CallOutcomeKind.UNKNOWN
        assert tools.effects == {"mail.send": 1}

    async def test_an_older_epoch_is_fenced(self, toolbox, token) -> None:
        await self.call(toolbox, token, "mes.takt", "step_1", epoch=3)
        with pytest.raises(LeaseLost):
            await self.call(toolbox, token, "mes.takt", "step_2", epoch=2)

    async def test_silence_is_unavailable(self, toolbox, tools, token) -> None:
        tools.down = True
        with pytest.raises(DependencyUnavailable):
            await toolbox.list_skills(token())
        with pytest.raises(DependencyUnavailable):
            await self.call(toolbox, token, "mes.takt", "step_1")

    @staticmethod
    async def call(toolbox, token, skill, request_id, arguments=b'{"line": "A"}', epoch=1):
        return await toolbox.call_skill(
            token(), skill=skill, arguments=arguments, request_id=request_id, lease_epoch=epoch
        )


class MemoryReaderContract:
    """Fixtures: `reader` (the adapter), `memory` (what stands behind it), `token`."""

    async def test_the_best_items_come_first_and_no_more_than_asked(self, reader, memory, token) -> None:
        for n in range(5):
            item = RecalledItem(id=f"mem_{n}", content=f"事实 {n}", score=n / 10, valid_from="", trusted=n > 2)
            memory.items.append((f"{PLACE}/notes", item))
        found = await reader.recall(token(), path=PLACE, query="q", top_k=3, min_score=0.25)
        assert [item.id for item in found] == ["mem_4", "mem_3"]
        assert [item.trusted for item in found] == [True, True]
        found = await reader.recall(token(), path=PLACE, query="q", top_k=1, min_score=0)
        assert [(item.id, item.content) for item in found] == [("mem_4", "事实 4")]

    async def test_a_path_beyond_the_token_is_not_allowed(self, reader, token) -> None:
        for path in ("/tenants/acme/memory/episodic", "/tenants/acme/memory/episodic/u7", "/tenants/b/memory/episodic"):
            with pytest.raises(NotAllowed):
                await reader.recall(token(), path=path, query="q", top_k=3, min_score=0)

    async def test_a_binding_keeps_its_name_and_ends_once(self, reader, memory, token) -> None:
        task_id = memory.verify(token()).task_id
        first = await reader.bind(token(), task_id=task_id, read=[PLACE], write=[], ttl_s=60)
        assert memory.bound[task_id] == ((PLACE,), ())
        assert await reader.bind(token(), task_id=task_id, read=[PLACE], write=[PLACE], ttl_s=60) == first
        assert memory.bound[task_id] == ((PLACE,), (PLACE,))
        await reader.unbind(token(), first)
        await reader.unbind(token(), first)
        assert memory.unbound == [task_id]

    async def test_silence_is_unavailable(self, reader, memory, token) -> None:
        memory.down = True
        with pytest.raises(DependencyUnavailable):
            await reader.recall(token(), path=PLACE, query="q", top_k=3, min_score=0)
