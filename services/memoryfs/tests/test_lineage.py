"""Lineage: over items that the caller may read alone; others are neither named nor counted."""

from __future__ import annotations

import grpc
from memoryos.memoryfs.v1 import lifecycle_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND
DERIVED, SUPERSEDED = lifecycle_pb2.LINEAGE_KIND_DERIVED, lifecycle_pb2.LINEAGE_KIND_SUPERSEDED
_numbers = iter(range(1, 1_000_000))


async def code_of(call) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def merged(caller, *ids: str, content: str) -> str:
    request = lifecycle_pb2.MergeRequest(
        path=caller.path, ids=ids, content=content, request_id=f"lineage-{next(_numbers)}"
    )
    return (await caller.call("Merge", request)).item.id


async def lineage(caller, item_id: str, depth: int = 0):
    return await caller.call("Lineage", lifecycle_pb2.LineageRequest(id=item_id, depth=depth))


def names(answer) -> list[str]:
    return [item.id for item in answer.items]


def edges(answer) -> set[tuple[str, str, int]]:
    return {(edge.from_id, edge.to_id, edge.kind) for edge in answer.edges}


async def test_both_ways(alice):
    a, b, c = [await alice.write(f"fact {n}") for n in range(3)]
    low = await merged(alice, a, b, content="a and b")
    top = await merged(alice, low, c, content="a, b and c")
    answer = await lineage(alice, low)
    assert names(answer)[0] == low
    assert set(names(answer)) == {a, b, c, low, top}
    steps = {(a, low), (b, low), (low, top), (c, top)}
    assert edges(answer) == {(x, y, kind) for x, y in steps for kind in (DERIVED, SUPERSEDED)}
    assert not answer.truncated


async def test_depth_is_a_bound_and_what_lies_beyond_is_said(alice):
    item_id = await alice.write("fact")
    chain = [item_id]
    for n in range(4):
        other = await alice.write(f"other {n}")
        chain.append(await merged(alice, chain[-1], other, content=f"level {n}"))
    answer = await lineage(alice, item_id, depth=1)
    assert names(answer) == chain[:2]
    assert answer.truncated
    whole = await lineage(alice, item_id, depth=16)
    assert set(chain) < set(names(whole))
    assert not whole.truncated


async def test_what_the_caller_may_not_read_is_neither_named_nor_counted(service, alice, bob):
    a = await alice.write("fact a", readers=["user:bob"])
    b = await alice.write("fact b, hidden from bob")
    top = await merged(alice, a, b, content="a and b")
    answer = await lineage(bob, a)
    assert names(answer) == [a]
    assert not answer.edges
    assert not answer.truncated
    for hidden in (b, top):
        assert hidden not in str(answer)
        assert await code_of(lineage(bob, hidden)) is NOT_FOUND
    await alice.forget(b)
    answer = await lineage(alice, a)
    assert names(answer) == [a]
    assert top not in str(answer)
    assert await code_of(lineage(alice, top)) is NOT_FOUND
    assert await code_of(lineage(service.caller("mallory", tenant="evil"), a)) is NOT_FOUND
