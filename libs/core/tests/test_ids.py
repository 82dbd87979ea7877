import pytest
from hypothesis import given
from hypothesis import strategies as st
from memoryos_core.clock import ManualClock
from memoryos_core.ids import SequenceIds, UlidSource, encode_ulid, is_id


def test_ids_of_one_process_grow_also_when_the_clock_stands_still():
    ids = UlidSource(ManualClock())
    made = [ids.new("mem") for _ in range(1000)]
    assert made == sorted(made)
    assert len(set(made)) == 1000


def test_ids_grow_when_the_clock_goes_back():
    clock = ManualClock()
    ids = UlidSource(clock)
    first = ids.new("mem")
    clock._now = clock._now.replace(year=2025)
    assert ids.new("mem") > first


def test_ulid_matches_its_specification():
    # 48 bits of milliseconds first, 80 of randomness after, 5 bits a character.
    assert encode_ulid(1469918176385, 0) == "01ARYZ6S410000000000000000"
    assert encode_ulid((1 << 48) - 1, (1 << 80) - 1) == "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"


@pytest.mark.parametrize(
    "text",
    ["", "mem_", "mem_123", "ses_01ARYZ6S410000000000000000", "mem_01aryz6s410000000000000000",
     "mem_81ARYZ6S410000000000000000", "mem_01ARYZ6S41000000000000000U", " mem_01ARYZ6S410000000000000000",
     "mem_01ARYZ6S410000000000000000\n"],
)  # fmt: skip
def test_what_is_no_item_id(text):
    assert not is_id(text, "mem")


@given(st.integers(0, (1 << 48) - 1), st.integers(0, (1 << 80) - 1))
def test_every_ulid_is_an_id(milliseconds, randomness):
    assert is_id("mem_" + encode_ulid(milliseconds, randomness), "mem")


def test_an_unknown_prefix_is_refused():
    with pytest.raises(ValueError, match="unknown id prefix"):
        SequenceIds().new("memo")
