import pytest
from memoryos_core.errors import SealedKeyUnavailable
from memoryos_core.sealing import OVERHEAD_BYTES, DataKey, TenantKeys, aad, key_id_of, open_sealed, seal

PLACE = aad("acme", "memoryfs.items.content", "mem_1", 1)


def test_a_sealed_value_opens_with_its_key_in_its_place_only():
    key = DataKey.generate()
    sealed = seal(key, "客户 A".encode(), PLACE)
    assert open_sealed(key, sealed, PLACE) == "客户 A".encode()
    assert len(sealed) == len("客户 A".encode()) + OVERHEAD_BYTES
    assert key_id_of(sealed) == key.key_id
    for other_key, other_place in (
        (DataKey.generate(), PLACE),
        (key, aad("acme", "memoryfs.items.content", "mem_2", 1)),
    ):
        with pytest.raises(SealedKeyUnavailable):
            open_sealed(other_key, sealed, other_place)


@pytest.mark.parametrize("position", [0, 1, 17, 29, -1])
def test_a_changed_byte_is_noticed(position):
    key = DataKey.generate()
    sealed = bytearray(seal(key, b"text", PLACE))
    sealed[position] ^= 1
    with pytest.raises(SealedKeyUnavailable):
        open_sealed(key, bytes(sealed), PLACE)


@pytest.mark.parametrize("junk", [b"", b"\x01", b"\x02" + b"0" * 60])
def test_what_is_not_sealed_is_refused(junk):
    with pytest.raises(SealedKeyUnavailable):
        key_id_of(junk)


def test_parts_of_additional_data_cannot_run_into_each_other():
    assert aad("ab", "c") != aad("a", "bc")


def test_equal_texts_seal_differently_and_keys_are_never_printed():
    key = DataKey.generate()
    assert seal(key, b"x", PLACE) != seal(key, b"x", PLACE)
    assert key.key.hex() not in repr(key)
    assert repr(key.key) not in repr(key)


def test_tenants_and_purposes_do_not_share_hashes():
    one, two = TenantKeys.of(DataKey.generate()), TenantKeys.of(DataKey.generate())
    assert one.token_hash("王") != two.token_hash("王")
    assert one.token_hash("王") == one.token_hash("王")
    assert one.digest_hmac("d") != one.audit_hmac("d")
    assert -(2**63) <= one.token_hash("x") < 2**63
