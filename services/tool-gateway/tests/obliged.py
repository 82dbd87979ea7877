"""A skill whose rules oblige: the repository's bundle with one more rule file, and what reads its traces."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from memoryos_policy.bundles import default_bundle_dir

from .bench import Bench, skill_document
from .world import World

SETTLED_S_MAX: Final = 20.0

RULES = """
package memoryos.skills["obliged.do"]

import data.memoryos.subjects

visible if subjects.known

allow contains {"code": "ok", "text": "ok"} if not input.args.note

manual_review contains {
	"code": "look",
	"text": "look",
	"approval": {"group": "finance", "quorum": 1, "expires_in_s": 3600},
} if input.args.note

obligations contains {
	"kind": "rate_limit",
	"key": sprintf("obliged:%s", [input.subject.user]),
	"limit": 2,
	"window_s": 3600,
	"cost": 1,
}

obligations contains {"kind": "notify", "channel": "team", "text": "It ended."}

obligations contains {"kind": "redact", "pointers": ["/items/*/owner"], "detectors": ["phone"]}

obligations contains {"kind": "output_limit", "bytes": 2000}

obligations contains {"kind": "taint", "facts": ["personal_data"]}

obligations contains {"kind": "rewrite_args", "patches": [{"pointer": "/amount", "value": 10}]} if {
	input.args.amount > 10
}
"""


def with_obligations(folder: Path) -> Path:
    """Copy the bundle and add the rules of `obliged.do`, which is carried out by skill files of other names, too."""
    shutil.copytree(default_bundle_dir(), folder)
    for name in ("obliged.do", "obliged.drop", "obliged.say"):
        place = folder / "memoryos" / "skills" / name
        place.mkdir()
        (place / f"{name}.rego").write_text(RULES.replace("obliged.do", name))
    return folder


def obliged_skills() -> list[dict[str, Any]]:
    """A skill that is done, and one whose answer is lost and whose upstream can be asked."""
    known = {
        "lookup": {"endpoint": "${UPSTREAM}", "path": "/known/{arguments/name}"},
        "happened": {"pointer": "/known", "equals": True},
        "did_not_happen": {"pointer": "/known", "equals": False},
    }
    return [
        skill_document("obliged.do", "ok", timeout_s=0.5, attempts=1, egress="none"),
        skill_document("obliged.say", "say", egress="none"),
        skill_document("obliged.drop", "drop", timeout_s=0.5, attempts=1, egress="none", reconcile=known),
    ]


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SETTLED_S_MAX):
        while not await true():  # noqa: ASYNC110 -- other processes
            await asyncio.sleep(0.05)


async def all_told(bench: Bench, world: World) -> None:
    """Return when no notice of the tenant waits any more; leases of the dead end at once."""

    async def done() -> bool:
        async with bench.database.unscoped() as tx:
            await tx.execute(
                "UPDATE toolgateway.due_notices SET due_time = clock_timestamp() WHERE tenant = %(tenant)s",
                {"tenant": world.tenant},
            )
        return await bench.rows("SELECT 1 FROM toolgateway.notices", tenant=world.tenant) == []

    await until(done)
