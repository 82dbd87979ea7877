"""CallSkill with policy, the library of rules, 200 skills and the journal, beside the bare upstream and a bare OPA."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import grpc
import yaml
from memoryos_testing.stack import Stack, running_stack
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.adapters.skill_locks import pin_skill
from memoryos_toolgateway.domain.skill_lock import Pin

from bench.callers import DecisionCaller, SkillCaller
from bench.cpu import CpuMeter
from bench.decide import BAR, bundle_of, skill_name
from bench.figures import Figures
from bench.raw import RawOpa, RawUpstream
from bench.timing import Timing, measure, paced
from bench.upstream import upstream

WITHOUT: Final = ("harness", "harness-worker", "memoryfs", "memoryfs-upkeep")
AT_ONCE: Final = 16
PER_S: Final = 50
OVER_P50_MS, OVER_P95_MS, LEAST_PER_S = 8.0, 20.0, 300
SKILLS: Final = {"read": skill_name(0), "non_idempotent": skill_name(1)}
_ARGUMENTS: Final = {"amount": 20}


class ActBench:
    """One deployment and one upstream."""

    def __init__(self, figures: Figures, scale: float) -> None:
        self._figures = figures
        self._count = max(100, int(2_000 * scale))

    async def run(self) -> None:
        """Measure the parts alone, then each class of call: one caller, an even rate, many callers."""
        with TemporaryDirectory(prefix="memoryos-act-") as name:
            folder = Path(name)
            async with upstream(folder) as address:
                write_skills(folder / "skills")
                settings = [
                    f"policy.bundle_dir={bundle_of(folder / 'bundle', BAR)}",
                    f"tool-gateway.skill_dirs=[{folder / 'skills'}]",
                    f"tool-gateway.endpoints={{UPSTREAM: '{address}'}}",
                    f"tool-gateway.networks=['{address}']",
                ]
                async with running_stack(without=WITHOUT, settings=settings) as stack:
                    await self._measure(stack, RawUpstream(address))

    async def _measure(self, stack: Stack, raw: RawUpstream) -> None:
        opa = RawOpa(stack.folder)
        meter = CpuMeter(stack.folder, ["tool-gateway", "policy", "postgres", "opa"])
        async with (
            grpc.aio.insecure_channel(stack.addresses["policy"]) as policy,
            grpc.aio.insecure_channel(stack.addresses["tool_gateway"]) as gateway,
        ):
            decider = DecisionCaller(stack, policy, SKILLS["read"], _ARGUMENTS)
            asked = await measure(lambda _: opa.decide(decider.document()), count=self._count, warm=100)
            self._figures.latency("bare OPA", asked)
            for effect_class, skill in SKILLS.items():
                caller = SkillCaller(stack, gateway, skill, _ARGUMENTS)
                await self._call(effect_class, caller, raw, meter)
        await opa.close()

    async def _call(self, effect_class: str, caller: SkillCaller, raw: RawUpstream, meter: CpuMeter) -> None:
        ours = await measure(lambda _: caller.call(), count=self._count, warm=200, meter=meter)
        bare = await measure(lambda _: raw.call(), count=self._count, warm=100)
        self._figures.latency(f"CallSkill ({effect_class}), one caller", ours, bare)
        at_rate = await paced(lambda _: caller.call(), per_s=PER_S, count=self._count // 2, meter=meter)
        over = _over(at_rate, bare)
        self._figures.latency(
            f"CallSkill ({effect_class}) over the bare upstream, {PER_S}/s",
            over, bare, p50_ms_max=OVER_P50_MS, p95_ms_max=OVER_P95_MS,
        )  # fmt: skip
        many = await measure(lambda _: caller.call(), count=2 * self._count, at_once=AT_ONCE, meter=meter)
        bare_many = await measure(lambda _: raw.call(), count=self._count, at_once=AT_ONCE)
        self._figures.rate(f"CallSkill ({effect_class}), {AT_ONCE} callers", many, bare_many, LEAST_PER_S)


def _over(ours: Timing, bare: Timing) -> Timing:
    """Give what a call takes beyond the upstream: each percentile less the upstream's own."""
    return replace(
        ours,
        p50_ms=ours.p50_ms - bare.p50_ms,
        p95_ms=ours.p95_ms - bare.p95_ms,
        p99_ms=ours.p99_ms - bare.p99_ms,
    )


def write_skills(folder: Path) -> None:
    """Write the skill files, each accepted by a person and opened."""
    folder.mkdir()
    for effect_class, name in SKILLS.items():
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(_document(name, effect_class)), encoding="utf-8")
        found = load_skill(file, {"UPSTREAM": "127.0.0.1:1"})
        pin = Pin(digest=found.definition_digest, opened=True, accepted_by="bench", accept_time="2026-01-01T00:00:00Z")
        pin_skill(folder, name, pin)


def _document(name: str, effect_class: str) -> dict[str, Any]:
    reads = effect_class == "read"
    request = {"method": "GET", "path": "/look", "query": {"amount": "/amount"}} if reads else {"body": "arguments"}
    return {
        "name": name,
        "version": "1",
        "description": "A tool of the bench.",
        "parameters": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}},
        "effect_class": effect_class,
        "risk": "low",
        "egress": "none" if reads else "internal",
        "connector": {"type": "http", "endpoint": "${UPSTREAM}", "method": "POST", "path": "/do"} | request,
    }
