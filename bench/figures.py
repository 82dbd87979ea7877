"""The lines of the table, and how timings become them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.timing import Timing


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    ours: str
    raw: str = ""
    ratio: str = ""
    expected: str = ""
    met: bool | None = None
    cpu: str = ""
    """CPU milliseconds a call, of the service and of PostgreSQL or OPA."""


class Figures:
    """Collects figures and says each at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.all: list[Figure] = []

    def rate(self, name: str, ours: Timing, raw: Timing | None, least: float | None, *, per_call: int = 1) -> None:
        """Keep calls a second, times `per_call`."""
        ours_per_s = ours.per_s * per_call
        self._keep(
            Figure(
                name,
                f"{ours_per_s:,.0f}/s",
                f"{raw.per_s * per_call:,.0f}/s" if raw else "",
                f"{ours.per_s / raw.per_s:.2f}" if raw else "",
                f"≥ {least:,.0f}/s" if least else "",
                None if least is None else ours_per_s >= least,
                _cpu(ours),
            )
        )

    def latency(
        self,
        name: str,
        ours: Timing,
        raw: Timing | None = None,
        *,
        p50_ms_max: float | None = None,
        p95_ms_max: float | None = None,
        p99_ms_max: float | None = None,
        sound: bool = True,
    ) -> None:
        """Keep p50 / p95; `sound` false: the answers were wrong, so no bound is met."""
        bounds = {"p50": (ours.p50_ms, p50_ms_max), "p95": (ours.p95_ms, p95_ms_max), "p99": (ours.p99_ms, p99_ms_max)}
        bound = ", ".join(f"{name} ≤ {most:g} ms" for name, (_, most) in bounds.items() if most)
        within = all(found <= most for found, most in bounds.values() if most)
        self._keep(
            Figure(
                name,
                f"{ours.p50_ms:.2f} / {ours.p95_ms:.2f}{f' / {ours.p99_ms:.2f}' if p99_ms_max else ''} ms",
                f"{raw.p50_ms:.2f} / {raw.p95_ms:.2f} ms" if raw else "",
                f"{ours.p50_ms / raw.p50_ms:.1f}" if raw else "",
                bound,
                within and sound if bound else None,
                _cpu(ours),
            )
        )

    def value(self, name: str, text: str) -> None:
        """Keep anything else."""
        self._keep(Figure(name, text))

    def _keep(self, figure: Figure) -> None:
        self.all.append(figure)
        self.say(f"{figure.name}: {figure.ours}, raw {figure.raw or '–'}; CPU {figure.cpu or '–'}")


def recall_at_10(found: Sequence[str], expected: dict[str, float]) -> float:
    """Give the share of the ten places that hold one of the ten best."""
    wanted = min(10, len(expected))
    return 1.0 if not wanted else sum(item_id in expected for item_id in found[:wanted]) / wanted


def _cpu(timing: Timing) -> str:
    return " ".join(f"{name} {ms:.2f}" for name, ms in timing.cpu_ms.items())
