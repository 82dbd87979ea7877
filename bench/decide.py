"""Decide with the library, hundreds of skills and the durable log, beside the same OPA asked bare."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import grpc
from memoryos_policy.bundles import default_bundle_dir
from memoryos_testing.stack import Stack, running_stack

from bench.callers import DecisionCaller
from bench.cpu import CpuMeter
from bench.figures import Figures
from bench.raw import RawOpa
from bench.timing import Timing, measure, paced

WITHOUT: Final = ("tool-gateway", "harness", "harness-worker", "memoryfs", "memoryfs-upkeep")
SKILLS: Final = (10, 200, 1_000)
BAR: Final = 200
"""Skills at which the bars stand."""
AT_ONCE: Final = 32
_RULES: Final = """\
package memoryos.skills["{name}"]

import data.memoryos.limits
import data.memoryos.subjects

visible if subjects.known

allow contains {{"code": "within_limit", "text": "The amount is within the limit."}} if {{
	is_number(input.args.amount)
	input.args.amount <= limits["refund.create"].max_amount.agent
}}

deny contains {{"code": "amount_invalid", "text": "The amount is not a positive number."}} if {{
	input.purpose == "call"
	not valid_amount
}}

valid_amount if input.args.amount > 0
"""


class DecideBench:
    """One deployment for each size of the rules."""

    def __init__(self, figures: Figures, scale: float) -> None:
        self._figures = figures
        self._scale = scale

    async def run(self) -> None:
        """Measure each size; the bars stand at 200 skills, and the others say whether it matters."""
        alone: dict[int, tuple[Timing, Timing]] = {}
        for skills in SKILLS:
            with TemporaryDirectory(prefix="memoryos-rules-") as folder:
                bundle = bundle_of(Path(folder) / "bundle", skills)
                async with running_stack(without=WITHOUT, settings=[f"policy.bundle_dir={bundle}"]) as stack:
                    alone[skills] = await self._measure(stack, skills)
        few, many = alone[SKILLS[0]], alone[SKILLS[-1]]
        ratios = [
            f"{b.p50_ms / a.p50_ms:.2f} (OPA's CPU {_opa(b) / _opa(a):.2f})" for a, b in zip(few, many, strict=True)
        ]
        self._figures.value(f"{SKILLS[-1]} skills over {SKILLS[0]}: Decide, bare OPA (≤ 1.3)", ", ".join(ratios))

    async def _measure(self, stack: Stack, skills: int) -> tuple[Timing, Timing]:
        meter, opa = CpuMeter(stack.folder, ["policy", "postgres", "opa"]), RawOpa(stack.folder)
        count = max(100, int(2_000 * self._scale))
        async with grpc.aio.insecure_channel(stack.addresses["policy"]) as channel:
            caller = DecisionCaller(stack, channel, skill_name(skills // 2), {"amount": 20})
            for _ in range(200):
                await caller.decide()
            ours = await measure(lambda _: caller.decide(), count=count, meter=meter)
            base = await measure(lambda _: opa.decide(caller.document()), count=count, meter=meter)
            self._figures.latency(f"Decide, {skills} skills, one caller", ours, base)
            if skills == BAR:
                at_rate = await paced(lambda _: caller.decide(), per_s=100, count=count, meter=meter)
                self._figures.latency(f"Decide, {skills} skills, 100/s", at_rate, base, p95_ms_max=5.0)
                many = await measure(lambda _: caller.decide(), count=5 * count, at_once=AT_ONCE, meter=meter)
                bare = await measure(lambda _: opa.decide(caller.document()), count=count, at_once=AT_ONCE)
                self._figures.rate(f"Decide, {skills} skills, {AT_ONCE} callers", many, bare, 500)
        await opa.close()
        return ours, base


def bundle_of(folder: Path, skills: int) -> Path:
    """Give a folder with the library and this many skills beside those that come with it."""
    shutil.copytree(default_bundle_dir(), folder, ignore=shutil.ignore_patterns("*_test.rego"))
    for number in range(skills):
        name = skill_name(number)
        rules = folder / "memoryos" / "skills" / name / f"{name}.rego"
        rules.parent.mkdir()
        rules.write_text(_RULES.format(name=name), encoding="utf-8")
    return folder


def skill_name(number: int) -> str:
    """Give the name of a skill of the bench."""
    return f"bench.s{number:04}"


def _opa(timing: Timing) -> float:
    return timing.cpu_ms["opa"]
