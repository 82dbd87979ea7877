"""Bare dates are first instants in the caller's zone; naive date-times are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from memoryos_sdk import InvalidArgument
from memoryos_sdk.times import instant, time_range, timestamp


@pytest.mark.parametrize(
    ("zone", "text", "utc"),
    [
        ("Asia/Shanghai", "2025-07-01", "2025-06-30T16:00:00"),
        ("America/Los_Angeles", "2025-07-01", "2025-07-01T07:00:00"),
        ("UTC", "2025-07-01", "2025-07-01T00:00:00"),
        # Midnight does not exist: the first instant of the date is 01:00 local time.
        ("Africa/Cairo", "2024-04-26", "2024-04-25T22:00:00"),
        # The whole day does not exist there: the instant of the change.
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00"),
    ],
)
def test_a_bare_date_is_its_first_instant_in_the_zone(zone: str, text: str, utc: str) -> None:
    expected = datetime.fromisoformat(utc).replace(tzinfo=UTC)
    assert instant(text, ZoneInfo(zone), "time") == expected
    assert instant(date.fromisoformat(text), ZoneInfo(zone), "time") == expected


def test_without_a_zone_the_machine_decides() -> None:
    assert instant("2025-07-01", None, "time") == datetime(2025, 7, 1).astimezone(UTC)


def test_a_date_time_keeps_its_instant() -> None:
    zone = ZoneInfo("Asia/Shanghai")
    for value in ("2025-07-01T23:30:00Z", "2025-07-02T07:30:00+08:00", datetime(2025, 7, 2, 7, 30, tzinfo=zone)):
        assert instant(value, ZoneInfo("America/New_York"), "time") == datetime(2025, 7, 1, 23, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2025, 7, 1),
        "2025-07-01T10:00:00",
        "2025-07-01 10:00",
        "20250701T100000",
        "2025-13-01",
        "2025-07-01\n",
        "١٢٣٤-٠١-٠١",
        "",
        "now",
        1751328000,
        1.5,
        True,
        None,
        b"2025-07-01",
    ],
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        instant(value, ZoneInfo("UTC"), "meta.time")  # type: ignore[arg-type]
    assert caught.value.violations[0].field == "meta.time"


def test_the_ends_of_time_are_refused_not_wrapped() -> None:
    with pytest.raises(InvalidArgument):
        instant(date.min, ZoneInfo("Asia/Shanghai"), "time")
    assert timestamp("0001-01-02", ZoneInfo("UTC"), "time").ToJsonString() == "0001-01-02T00:00:00Z"


def test_a_range_is_half_open_and_each_side_may_be_open() -> None:
    july = time_range(("2025-07-01", "2025-08-01"), ZoneInfo("UTC"), "time")
    assert (july.start.ToJsonString(), july.end.ToJsonString()) == ("2025-07-01T00:00:00Z", "2025-08-01T00:00:00Z")
    assert not time_range((None, None), None, "time").HasField("start")
