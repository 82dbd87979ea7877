"""Days are the caller's, instants are everybody's: the server's zone decides nothing (FAULTS, time zones)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from memoryos.memoryfs.v1 import filter_pb2, memoryfs_pb2
from memoryos.type.v1 import common_pb2

from .filter_world import stamp
from .test_crash import Process

pytestmark = pytest.mark.integration
TICK = timedelta(microseconds=1)
PACIFIC = ZoneInfo("America/Los_Angeles")
KIRITIMATI = ZoneInfo("Pacific/Kiritimati")
ZONES = ["Asia/Shanghai", "America/Los_Angeles"]


def day(year: int, month: int, number: int, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Give the first instant of a day and of the next one, in UTC."""
    start = datetime(year, month, number, tzinfo=zone)
    return start.astimezone(UTC), (start + timedelta(days=1)).astimezone(UTC)


DAYS = [
    day(2025, 7, 1, ZoneInfo("Etc/GMT+8")),  # UTC-8, all year
    day(2026, 3, 8, PACIFIC),  # 23 hours: two o'clock does not exist
    day(2026, 11, 1, PACIFIC),  # 25 hours: one o'clock is there twice
    day(2026, 1, 1, KIRITIMATI),  # UTC+14
]


def test_the_days_are_what_they_should_be():
    assert [(end - start) // timedelta(hours=1) for start, end in DAYS] == [24, 23, 25, 24]
    assert DAYS[0][0] == datetime(2025, 7, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize("zone", ZONES)
async def test_a_day_of_the_caller_is_half_open_whatever_the_zone_of_the_server(
    database, keys, tmp_path, as_type, zone
):
    process = Process(database, keys, tmp_path, as_type)
    process.environ["TZ"] = zone
    async with process.running() as alice:
        for n, (start, end) in enumerate(DAYS):
            path = f"{alice.path}/d{n}"
            instants = [start - TICK, start, start + timedelta(hours=15, minutes=30), end - TICK, end]
            vector = memoryfs_pb2.Embedding(model="usem3-512", values=[1.0] + [0.0] * 511)
            entries = [
                memoryfs_pb2.WriteEntry(
                    content=f"event {k}",
                    valid_from=stamp(at),
                    valid_to=stamp(at + timedelta(hours=1)),
                    attributes_json=f'{{"at":"{at.astimezone(PACIFIC).isoformat()}"}}'.encode(),
                    embedding=vector,
                )
                for k, at in enumerate(instants)
            ]
            ids = [result.id for result in await alice.write_entries(entries, path=path)]
            within = common_pb2.TimeRange(start=stamp(start), end=stamp(end))
            value = filter_pb2.AttributeValue
            told = filter_pb2.AttributeRange(min=value(time=stamp(start)), max=value(time=stamp(end)))
            for where in (
                filter_pb2.Filter(valid_from=within),
                filter_pb2.Filter(attributes=[filter_pb2.AttributeCondition(path=["at"], range=told)]),
            ):
                assert set(await alice.list_ids(path=path, filter=where)) == set(ids[1:4])
                assert set(await alice.read_ids(path=path, filter=where)) == set(ids[1:4])
                found = await alice.read_ids(path=path, filter=where, embedding=vector)
                assert set(found) == set(ids[1:4])
            for at, held in ((start - 2 * TICK, []), (start - TICK, ids[:1]), (start, ids[:2]), (end, ids[3:])):
                assert set(await alice.read_ids(path=path, valid_at=stamp(at))) == set(held)
            (item,) = [item for item in (await alice.list(path=path)).items if item.id == ids[2]]
            assert item.valid_from.ToDatetime(tzinfo=UTC) == instants[2]
