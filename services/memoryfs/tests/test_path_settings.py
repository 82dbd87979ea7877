"""Settings of paths: inherited part by part, set by tenant-admins, and true for the next call of every process."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2
from memoryos.memoryfs.v1 import namespace_pb2 as pb
from memoryos_grpc import remote_error

from .test_transfer import export, person, send

ROOT = "/tenants/acme/memory/episodic"
TEAM = f"{ROOT}/团队"
DEEP = f"{TEAM}/deals/q3"


@pytest.fixture
def admin(service):
    return service.caller("root", roles=frozenset({"tenant-admin", "user"}))


async def settle(admin, path, *, mask=None, if_match="", request="", **parts):
    """Set parts of a path; `mask` names those to set."""
    for name in ("default_readers", "writers"):
        if name in parts:
            parts[name] = pb.PrincipalList(principals=parts[name])
    request = pb.SetPathSettingsRequest(
        settings=pb.PathSettings(path=path, **parts),
        update_mask=FieldMask(paths=mask) if mask is not None else None,
        if_match=if_match,
        request_id=request or f"set-{next(_numbers)}",
    )
    return (await admin.call("SetPathSettings", request)).settings


_numbers = iter(range(1, 10**9))


async def held(caller, path):
    return await caller.call("GetPathSettings", pb.GetPathSettingsRequest(path=path))


async def refused(call, reason):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    assert remote_error(error.value).reason == reason
    return remote_error(error.value)


async def test_each_part_is_inherited_from_the_nearest_path_that_states_it(admin, alice):
    before = (await held(alice, DEEP)).effective
    assert (before.gate, before.hot_window.seconds, before.items_max) == (0.8, 90 * 86_400, 0)
    assert not before.HasField("writers")
    assert not before.HasField("default_readers")
    await settle(admin, ROOT, gate=0.5, keep_max=7, writers=["group:sales"])
    await settle(admin, TEAM, gate=0.0, ttl={"seconds": 60})
    found = await held(alice, DEEP)
    assert (found.effective.gate, found.effective.keep_max, found.effective.ttl.seconds) == (0.0, 7, 60)
    assert list(found.effective.writers.principals) == ["group:sales"]
    assert found.own == pb.PathSettings(path=DEEP)
    assert (await held(alice, f"{ROOT}/elsewhere")).effective.gate == 0.5
    assert (await held(alice, f"{ROOT}/团队2")).effective.gate == 0.5
    # Named and absent: inherited again; what is not named stays.
    await settle(admin, TEAM, mask=["gate"])
    found = await held(alice, DEEP)
    assert (found.effective.gate, found.effective.ttl.seconds) == (0.5, 60)
    # Nobody may be stated, too.
    await settle(admin, TEAM, writers=[])
    assert (await settle(admin, TEAM, mask=["writers"], writers=[])).HasField("writers")
    assert list((await held(alice, DEEP)).effective.writers.principals) == []


async def test_only_a_tenant_admin_sets_and_only_within_the_tenant(service, admin, alice, mallory):
    await refused(settle(alice, ROOT, gate=0.1), "ROLE_REQUIRED")
    other = service.caller("root", tenant="evil", roles=frozenset({"tenant-admin"}))
    await refused(settle(other, ROOT, gate=0.1), "PATH_NOT_ALLOWED")
    await refused(held(mallory, ROOT), "PATH_NOT_ALLOWED")
    narrow = service.caller("root", roles=frozenset({"tenant-admin"}), write_paths=(TEAM,))
    await refused(settle(narrow, ROOT, gate=0.1), "PATH_NOT_ALLOWED")
    await settle(narrow, DEEP, gate=0.1)
    await refused(settle(admin, ROOT), "INVALID_FIELD")
    await refused(settle(admin, ROOT, mask=["etag"], gate=0.1), "INVALID_FIELD")
    await refused(settle(admin, ROOT, ttl={"seconds": -1}), "INVALID_FIELD")


async def test_etag_and_request_id(service, admin):
    first = await settle(admin, ROOT, gate=0.3, request="one")
    again = await settle(admin, ROOT, gate=0.3, request="one")
    assert first == again
    await refused(settle(admin, ROOT, gate=0.4, request="one"), "REQUEST_ID_REUSED")
    await refused(settle(admin, ROOT, gate=0.4, if_match="stale"), "ETAG_MISMATCH")
    await refused(settle(admin, DEEP, gate=0.4, if_match=first.etag), "ETAG_MISMATCH")
    second = await settle(admin, ROOT, gate=0.4, if_match=first.etag)
    assert second.etag != first.etag
    audited = await service.rows("SELECT outcome FROM core.audit WHERE method LIKE '%SetPathSettings' ORDER BY seq")
    assert [outcome for (outcome,) in audited].count("OK") == 2


async def test_the_list_shows_what_paths_state_by_name_in_pages(admin, alice):
    names = [f"{ROOT}/p{n}" for n in range(5)]
    for name in reversed(names):
        await settle(admin, name, gate=0.2)
    await settle(admin, f"{ROOT}/p", gate=0.2)
    await settle(admin, names[2], mask=["gate"])
    found, token = [], ""
    for _ in range(10):
        page = await alice.call(
            "ListPathSettings", pb.ListPathSettingsRequest(path=ROOT, page_size=2, page_token=token)
        )
        found += [stated.path for stated in page.settings]
        token = page.next_page_token
        if not token:
            break
    assert found == [f"{ROOT}/p", names[0], names[1], names[3], names[4]]
    assert [
        s.path for s in (await alice.call("ListPathSettings", pb.ListPathSettingsRequest(path=names[1]))).settings
    ] == [names[1]]


async def test_a_change_holds_for_the_next_call_on_every_process(start_service):
    one, two = await start_service(), await start_service()
    admin = one.caller("root", roles=frozenset({"tenant-admin"}))
    alice = two.caller("alice")
    for _ in range(3):
        await settle(admin, ROOT, gate=0.95)
        (result,) = await alice.write_entries(
            [memoryfs_pb2.WriteEntry(content=f"gated {next(_numbers)}", confidence=0.9)]
        )
        assert result.gated
        await settle(admin, ROOT, gate=0.5)
        (result,) = await alice.write_entries(
            [memoryfs_pb2.WriteEntry(content=f"through {next(_numbers)}", confidence=0.6)]
        )
        assert not result.gated


async def test_no_write_under_way_outruns_a_change(start_service):
    one, two = await start_service(), await start_service()
    admin = one.caller("root", roles=frozenset({"tenant-admin"}))

    async def write_on(caller, n):
        for count in range(500):
            try:
                await caller.write_entries([memoryfs_pb2.WriteEntry(content=f"text {n}/{count}")] * (1 + n % 2 * 9))
            except grpc.aio.AioRpcError as error:
                return remote_error(error).reason
        return "never refused"

    for turn in range(4):
        await settle(admin, ROOT, mask=["writers"])
        callers = [(one if n % 2 else two).caller(f"u{turn}.{n}") for n in range(8)]
        running = [asyncio.create_task(write_on(caller, n)) for n, caller in enumerate(callers)]
        await asyncio.gather(*(caller.write(f"begun {n}") for n, caller in enumerate(callers)))
        await settle(admin, ROOT, writers=[])
        kept = await one.rows("SELECT count(*) FROM memoryfs.items")
        assert set(await asyncio.gather(*running)) == {"NOT_WRITER"}
        assert await one.rows("SELECT count(*) FROM memoryfs.items") == kept


async def test_gate_caps_and_ttl_hold_for_new_and_changed_items(service, admin, alice):
    bot = service.caller("alice", roles=frozenset({"agent"}), chain=("helper",))
    person = service.caller("alice", roles=frozenset({"user"}))
    await settle(
        admin,
        TEAM,
        gate=0.6,
        ttl={"seconds": 3600},
        confidence_caps=pb.ConfidenceCaps(
            caps=[
                pb.ConfidenceCap(origin=item_pb2.ORIGIN_INFERRED, max=0.5),
                pb.ConfidenceCap(role="agent", max=0.7),
            ]
        ),
    )
    by_bot = await bot.get(await bot.write("by the bot", path=DEEP, confidence=1.0))
    assert by_bot.confidence == 0.7
    by_person = await person.get(await person.write("by a person", path=DEEP, confidence=1.0))
    assert by_person.confidence == 1.0
    assert by_person.expire_time.seconds - by_person.create_time.seconds == 3600
    (inferred,) = await person.write_entries(
        [memoryfs_pb2.WriteEntry(content="a guess", origin=item_pb2.ORIGIN_INFERRED, confidence=1.0)], path=DEEP
    )
    assert inferred.gated
    own_end = await person.get(await person.write("ends soon", path=DEEP, ttl={"seconds": 60}))
    assert own_end.expire_time.seconds - own_end.create_time.seconds == 60
    # An update by a call from above holds to the settings of the item's own place.
    await bot.update(by_person.id, path=ROOT, confidence=0.9)
    assert (await person.get(by_person.id)).confidence == 0.7


async def test_default_readers_are_given_and_nobody_opens_wider(service, admin, alice, bob):
    await settle(admin, TEAM, default_readers=["user:bob", "group:sales"])
    item = await alice.write("for all of the team", path=DEEP)
    assert list((await bob.get(item)).readers) == ["user:bob", "group:sales"]
    narrow = await alice.write("for bob", path=DEEP, readers=["user:bob"])
    await bob.get(narrow)
    await refused(alice.write("x", path=DEEP, readers=["user:carol"]), "READERS_TOO_WIDE")
    await refused(admin.write("x", path=DEEP, readers=["tenant:*"]), "READERS_TOO_WIDE")
    await refused(alice.update(item, path=DEEP, readers=["user:bob", "user:carol"]), "READERS_TOO_WIDE")
    # What is there stays when the path becomes narrower; it just cannot be opened again.
    await settle(admin, TEAM, default_readers=[])
    assert (await bob.get(item)).id == item
    assert not (await alice.get(await alice.write("closed", path=DEEP))).readers
    await settle(admin, TEAM, default_readers=["tenant:*"])
    assert (await service.caller("zoe").get(await alice.write("open", path=DEEP))).readers == ["tenant:*"]


async def test_writers_write_and_change_what_they_can_read(service, admin, alice, bob):
    sales = service.caller("sally", groups=frozenset({"sales"}))
    await settle(admin, TEAM, writers=["group:sales"], default_readers=["group:sales", "user:bob"])
    await refused(alice.write("x", path=DEEP), "NOT_WRITER")
    item = await sales.write("合同 by sally", path=DEEP)
    colleague = service.caller("carl", groups=frozenset({"sales"}))
    await colleague.update(item, path=DEEP, content="合同 corrected")
    seen = await bob.get(item)
    assert (seen.content, seen.owner, seen.revision) == ("合同 corrected", "user:sally", 2)
    assert await sales.read_ids("corrected", path=DEEP) == [item]
    # A reader that is no writer changes nothing, and neither does a writer that cannot read.
    await refused(bob.update(item, path=DEEP, content="x"), "NOT_OWNER")
    await refused(bob.forget(item, path=DEEP), "NOT_OWNER")
    private = await sales.write("private", path=DEEP, readers=["user:bob"])
    await refused(colleague.update(private, path=DEEP, content="x"), "ITEM_NOT_FOUND")
    await refused(colleague.forget(private, path=DEEP), "ITEM_NOT_FOUND")
    secret = await service.caller("sally", groups=frozenset({"sales"}), clearance=5).write(
        "secret", path=DEEP, sensitivity=5
    )
    await refused(colleague.update(secret, path=DEEP, content="x"), "ITEM_NOT_FOUND")
    # Whom it lets in and whom it concerns stays the owner's.
    for fields in ({"readers": ["user:bob"]}, {"sensitivity": 3}, {"user": "u9"}):
        await refused(colleague.update(item, path=DEEP, **fields), "NOT_OWNER")
    assert await colleague.forget(item, path=DEEP) == 1
    await refused(sales.get(item), "ITEM_NOT_FOUND")
    await sales.restore(item, path=DEEP)
    # A nearer path may name others; then those of the path above are none any more.
    await settle(admin, DEEP, writers=["user:bob"])
    await refused(colleague.update(item, path=DEEP, content="y"), "NOT_OWNER")
    await bob.update(item, path=DEEP, content="by bob")
    # An owner keeps what is its own, also where it may write nothing new.
    await sales.update(item, path=DEEP, content="by its owner")
    await refused(sales.write("new", path=DEEP), "NOT_WRITER")
    await admin.write("admins write everywhere", path=DEEP)


async def test_an_agent_that_writes_for_a_team_does_not_take_over_what_others_said(service, admin):
    one = service.caller("sally", groups=frozenset({"sales"}))
    two = service.caller("carl", groups=frozenset({"sales"}))
    await settle(admin, TEAM, writers=["group:sales"], default_readers=["group:sales"])
    first = await one.write("The delivery is on 12 May.", path=DEEP)
    second = await two.write("The delivery is on 12 May.", path=DEEP)
    assert first != second
    assert (await one.get(first)).revision == 1


async def test_quotas_refuse_by_name_and_count_everything_below(service, admin, alice, bob):
    await alice.write("there before", path=DEEP)
    await settle(admin, TEAM, items_max=3)
    await alice.write("two", path=TEAM)
    await bob.write("three", path=f"{DEEP}/x")
    error = await refused(bob.write("four", path=DEEP), "QUOTA_EXCEEDED")
    assert error.metadata["quota"] == "items_max"
    entries = [memoryfs_pb2.WriteEntry(content=f"many {n}") for n in range(20)]
    await refused(bob.write_entries(entries, path=DEEP), "QUOTA_EXCEEDED")
    await alice.write("elsewhere", path=f"{ROOT}/other")
    # Forgotten items give their place back, and take it again.
    mine = await alice.list_ids(path=TEAM)
    await alice.forget(mine[0], path=TEAM)
    await bob.write("four", path=DEEP)
    await refused(alice.restore(mine[0], path=TEAM), "QUOTA_EXCEEDED")
    # A higher path's quota holds below a path that has its own.
    await settle(admin, DEEP, items_max=100)
    await refused(bob.write("five", path=DEEP), "QUOTA_EXCEEDED")
    await settle(admin, TEAM, items_max=0)
    await bob.write("five", path=DEEP)
    used = await service.rows("SELECT item_count FROM memoryfs.path_quotas")
    assert used == [(4,)], "there before, three, four, five"


async def test_a_quota_of_bytes_counts_content_and_changes_of_it(admin, alice):
    await settle(admin, TEAM, bytes_max=100)
    item = await alice.write("a" * 60, path=TEAM)
    error = await refused(alice.write("b" * 41, path=TEAM), "QUOTA_EXCEEDED")
    assert error.metadata["quota"] == "bytes_max"
    await refused(alice.update(item, path=TEAM, content="中" * 34), "QUOTA_EXCEEDED")
    await alice.update(item, path=TEAM, content="中" * 33)
    await alice.update(item, path=TEAM, content="short")
    await alice.write("b" * 90, path=TEAM)


async def test_two_at_once_do_not_both_take_the_last_place(service, admin):
    await settle(admin, TEAM, items_max=5)
    callers = [service.caller(f"u{n}") for n in range(16)]
    results = await asyncio.gather(
        *(caller.write(f"text of {n}", path=f"{TEAM}/{n}") for n, caller in enumerate(callers)), return_exceptions=True
    )
    kept = [result for result in results if isinstance(result, str)]
    assert len(kept) == 5
    assert {remote_error(e).reason for e in results if not isinstance(e, str)} == {"QUOTA_EXCEEDED"}


async def test_a_quota_set_while_others_write_counts_what_they_wrote(service, admin):
    callers = [service.caller(f"u{n}") for n in range(8)]
    stop = asyncio.Event()

    async def write_on(n, caller):
        count = 0
        while not stop.is_set():
            await caller.write(f"text {n}/{count}", path=TEAM)
            count += 1
        return count

    running = [asyncio.create_task(write_on(n, caller)) for n, caller in enumerate(callers)]
    await callers[0].write("started", path=TEAM)
    await settle(admin, TEAM, items_max=10**6)
    stop.set()
    written = 1 + sum(await asyncio.gather(*running))
    assert await service.rows("SELECT item_count FROM memoryfs.path_quotas") == [(written,)]
    assert await service.rows("SELECT count(*) FROM memoryfs.items") == [(written,)]


async def test_a_writer_reverts_words_but_not_whom_an_item_lets_in(service, admin):
    one, two = (service.caller(name, groups=frozenset({"sales"})) for name in ("sally", "carl"))
    await settle(admin, TEAM, writers=["group:sales"], default_readers=["group:sales", "user:bob"])
    item = await one.write("first words", path=DEEP, readers=["group:sales"])
    await one.update(item, path=DEEP, content="second words")
    await one.update(item, path=DEEP, readers=["group:sales", "user:bob"])

    def revert(revision):
        return lifecycle_pb2.RevertRequest(path=DEEP, id=item, revision=revision, request_id=f"revert-{revision}")

    await refused(two.call("Revert", revert(1)), "NOT_OWNER")
    await one.update(item, path=DEEP, content="third words")
    await two.call("Revert", revert(3))
    assert (await one.get(item)).content == "second words"


async def test_an_import_holds_to_the_settings_of_each_place_unless_an_administrator_restores(service):
    there = "/tenants/evil/memory/episodic"
    mine, admin = person(service, "alice"), service.caller("root", tenant="evil", roles=frozenset({"tenant-admin"}))
    source = service.caller("alice")
    await source.write("for bob", path=f"{ROOT}/x/y", readers=["user:bob"])
    exported = await export(source)
    await settle(admin, f"{there}/x", default_readers=["user:carol"])
    await refused(send(mine, exported), "READERS_TOO_WIDE")
    await settle(admin, f"{there}/x", mask=["default_readers", "writers"], writers=["group:none"])
    await refused(send(mine, exported), "NOT_WRITER")
    await settle(admin, f"{there}/x", mask=["writers", "items_max"], items_max=0)
    assert (await send(mine, exported)).created_count == 1
    await settle(admin, f"{there}/x", items_max=1)
    await source.write("another", path=f"{ROOT}/x")
    await refused(send(mine, await export(source)), "QUOTA_EXCEEDED")
