"""Lists of sessions, and search in what was said: one's own, in both languages, whatever moves or was there before."""

import asyncio
import dataclasses

import pytest
from memoryos.harness.v1 import sessions_pb2
from memoryos_harness.adapters.postgres_search import BATCH, PostgresSearch
from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_rows import owner_scope
from memoryos_harness.domain.sessions import Look, MessageRole
from memoryos_postgres import roles
from memoryos_postgres.keyring import PostgresKeyRing, load_epoch_key
from memoryos_postgres.session_facts import Fact, facts_of, note
from memoryos_testing import scope_of
from psycopg import AsyncConnection

from .world import IDS, Client, World, refused

ROLES = {role.lower(): sessions_pb2.MessageRole.Value(f"MESSAGE_ROLE_{role}") for role in MessageRole}


async def say(client: Client, *texts: str, role: str = "user", session_id: str = "") -> list[sessions_pb2.Message]:
    answer = await client.sessions.AppendMessages(
        sessions_pb2.AppendMessagesRequest(
            session_id=session_id or client.session_id or await client.start_session(),
            messages=[sessions_pb2.Message(role=ROLES[role], content=text) for text in texts],
            request_id=IDS.new("evt"),
        ),
        metadata=client.metadata,
    )
    return list(answer.messages)


async def search(client: Client, query: str, **more) -> list[sessions_pb2.MessageHit]:
    request = sessions_pb2.SearchMessagesRequest(query=query, **more)
    return list((await client.sessions.SearchMessages(request, metadata=client.metadata)).hits)


async def sessions_of(client: Client, **more) -> tuple[list[str], str]:
    request = sessions_pb2.ListSessionsRequest(**more)
    answer = await client.sessions.ListSessions(request, metadata=client.metadata)
    return [session.id for session in answer.sessions], answer.next_page_token


def texts(hits: list[sessions_pb2.MessageHit]) -> list[str]:
    return [hit.message.content for hit in hits]


@pytest.fixture
async def harness(database_factory):
    return await database_factory(roles.HARNESS)


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("A 线的节拍时间是多少？", "节拍时间"),
        ("我们在上海开会", "我之前在上海开会吗"),
        ("When were the spindles replaced?", "spindle replacement replaced"),
        ("motor WR-1024 is out", "wr-1024"),
        ("ＷＲ－１０２４ 电机坏了", "WR-1024"),
        ("mail sarah.connor@gmail.com", "sarah.connor@gmail.com"),
        ("会議は東京です", "東京"),
    ],
)
async def test_what_was_said_is_found_by_its_words(world: World, said: str, query: str) -> None:
    client = world.client()
    (kept,) = await say(client, said)
    first = client.session_id
    await client.start_session()
    await say(client, "etwas anderes", "something else about nothing", "完全不同的话")
    found = await search(client, query)
    assert (found[0].session_id, found[0].message) == (first, kept)
    assert 0 < found[0].score <= 1
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


async def test_the_same_words_score_one_and_rare_words_weigh_more(world: World) -> None:
    client = world.client()
    await say(client, *[f"the pump of line {n} runs" for n in range(20)], "the pump of WR-77 runs", "pump")
    (best, *_) = await search(client, "pump WR-77")
    assert (best.message.content, best.score) == ("the pump of WR-77 runs", 1.0)
    by_rare, by_common = (await search(client, "WR-77 gearbox"))[0], (await search(client, "pump gearbox"))[0]
    assert 1 > by_rare.score > by_common.score > 0
    assert await search(client, "?! …") == []
    assert await search(client, "gearbox") == []


async def test_roles_count_and_the_newest_of_equals_comes_first(world: World) -> None:
    client = world.client()
    await say(client, "takt time one", "takt time two")
    await say(client, "takt time three", role="assistant")
    await say(client, "takt time four", role="tool")
    assert texts(await search(client, "takt time")) == ["takt time three", "takt time two", "takt time one"]
    assert texts(await search(client, "takt time", top_k=1)) == ["takt time three"]
    assert texts(await search(client, "takt time", role=ROLES["tool"])) == ["takt time four"]
    async with refused("INVALID_FIELD"):
        await search(client, "")
    async with refused("INVALID_FIELD"):
        await search(client, "x", top_k=51)


async def test_nobody_else_finds_it_whatever_their_roles(world: World) -> None:
    canary = "canary-7f3a 金丝雀的秘密"
    owner = world.client()
    await say(owner, canary)
    assert texts(await search(owner, canary)) == [canary]
    strangers = (
        world.client("u7"),
        world.client("u9", roles=("user", "operator", "auditor")),
        world.client(tenant="other"),
        world.client("u4"),
    )
    for stranger in strangers:
        await say(stranger, "canary of my own 我的金丝雀")
        for query in (canary, "canary", "金丝雀"):
            assert texts(await search(stranger, query)) == ["canary of my own 我的金丝雀"]
        listed, _ = await sessions_of(stranger)
        assert listed == [stranger.session_id]


async def test_row_security_alone_keeps_the_words_apart(world: World, harness) -> None:
    for user, tenant in (("u42", "acme"), ("u7", "acme"), ("u42", "other")):
        await say(world.client(user, tenant=tenant), "同样的话 the same words")
    for user, tenant in (("u42", "acme"), ("u7", "acme"), ("nobody", "acme")):
        scope = dataclasses.replace(scope_of(), user=user, tenant=tenant)
        async with harness.scoped(scope) as tx:
            rows = await tx.fetch_all("SELECT tenant, user_id FROM harness.message_words")
            assert await tx.execute("DELETE FROM harness.message_words") == 0
        assert [(row["tenant"], row["user_id"]) for row in rows] == ([] if user == "nobody" else [(tenant, user)])


async def test_messages_of_before_are_found_in_full_and_a_writer_of_before_loses_nothing(world: World, harness) -> None:
    client = world.client()
    for batch in range(3):
        await say(client, *[f"old pump {batch} {n}" for n in range(BATCH // 2)])
    old = client.session_id
    async with await AsyncConnection.connect(world.database.admin_dsn, autocommit=True) as admin:
        await admin.execute("DELETE FROM harness.message_words")
        await admin.execute("UPDATE harness.sessions SET worded_count = 0")
    await say(client, "a new pump of an old session")
    assert len(await search(client, "pump", top_k=50)) == 50
    async with harness.scoped(owner_scope("acme", "u42")) as tx:
        assert await tx.fetch_value("SELECT count(*) FROM harness.message_words") == 3 * (BATCH // 2) + 1
        row = await tx.fetch_one("SELECT worded_count, message_count FROM harness.sessions WHERE id = %s", (old,))
        assert row["worded_count"] == row["message_count"]
        # As the previous release writes: a place is taken, and no words.
        await tx.execute("UPDATE harness.sessions SET message_count = message_count + 1 WHERE id = %s", (old,))
        sealed = SealedColumns(PostgresKeyRing(load_epoch_key(world.folder / "epoch.key")))
        content = await sealed.seal_text(
            tx, owner_scope("acme", "u42"), "messages.content", "msg_late", "gearbox 齿轮箱"
        )
        await tx.execute(
            "INSERT INTO harness.messages (tenant, session_id, sequence, id, user_id, role, sealed_content)"
            " SELECT tenant, id, message_count, 'msg_late', user_id, 'USER', %s FROM harness.sessions WHERE id = %s",
            (content, old),
        )
    both = await asyncio.gather(search(client, "齿轮箱"), search(client, "gearbox"), say(client, "meanwhile"))
    assert [texts(hits) for hits in both[:2]] == [["gearbox 齿轮箱"]] * 2
    assert texts(await search(client, "meanwhile")) == ["meanwhile"]


async def test_a_found_question_comes_with_its_answer_and_what_is_shown_already_is_left_out(
    world: World, harness
) -> None:
    client = world.client()
    await say(client, "What is the takt time of line A?")
    await say(client, "42 seconds.", role="assistant")
    await say(client, "takt time again?")
    sealed = SealedColumns(PostgresKeyRing(load_epoch_key(world.folder / "epoch.key")))
    port = PostgresSearch(harness, sealed)
    look = Look(query="takt time", top_k=5, replies=True, shown_session=client.session_id, shown_from=3)
    (hit,) = await port.search(owner_scope("acme", "u42"), look)
    assert (hit.message.sequence, hit.reply) == (1, "42 seconds.")
    assert hit.reply_id.startswith("msg_")
    assert await port.search(owner_scope("acme", "u42"), dataclasses.replace(look, min_score=1.1)) == ()


async def test_what_a_session_saw_goes_with_what_is_read_of_it(world: World, harness) -> None:
    owner = world.client()
    await say(owner, "the maintenance window moves to night")
    told = dataclasses.replace(scope_of(), session_id=owner.session_id)
    async with harness.scoped(told) as tx:
        note(tx, told, [Fact.UNTRUSTED_CONTENT], source="skill:web.fetch")
    quiet = world.client()
    await say(quiet, "lunch is at noon")

    async def seen(session_id: str, user: str = "u42") -> set[Fact]:
        asked = dataclasses.replace(scope_of(), user=user, session_id=session_id)
        async with harness.scoped(asked) as tx:
            return set((await facts_of(tx, asked)).seen)

    async def listed(client: Client, session_id: str) -> None:
        request = sessions_pb2.ListMessagesRequest(session_id=session_id)
        await client.sessions.ListMessages(request, metadata=client.metadata)

    await search(world.client(session_id="ses_q", chain=("helper",)), "lunch")
    await listed(world.client(session_id="ses_q", chain=("helper",)), quiet.session_id)
    await search(world.client(session_id="ses_q", chain=("helper",)), "nothing like it")
    assert await seen("ses_q") == set()
    await search(world.client(session_id="ses_s", chain=("helper",)), "maintenance window")
    await listed(world.client(session_id="ses_l", chain=("helper",)), owner.session_id)
    await search(world.client(roles=("agent",)), "maintenance window")
    assert [await seen(name) for name in ("ses_s", "ses_l", "")] == [{Fact.UNTRUSTED_CONTENT}] * 3
    assert await seen("", "u7") == set()


async def test_a_search_leaves_an_audit_row_with_ids_only(world: World) -> None:
    client = world.client()
    (kept,) = await say(client, "canary-question 齿轮")
    await search(client, "齿轮")
    async with await AsyncConnection.connect(world.database.admin_dsn) as admin:
        rows = await (
            await admin.execute("SELECT target_ids, a::text FROM core.audit a WHERE kind = 'SESSION_READ'")
        ).fetchall()
    assert [row[0] for row in rows] == [[kept.id]]
    assert "齿轮" not in rows[0][1]


async def test_sessions_come_last_active_first_in_pages_of_their_caller(world: World) -> None:
    client = world.client()
    made = [await client.start_session() for _ in range(5)]
    await say(client, "hello", session_id=made[1])
    order = [made[1], made[4], made[3], made[2], made[0]]
    assert await sessions_of(client) == (order, "")
    page, token = await sessions_of(client, page_size=3)
    assert page == order[:3]
    assert await sessions_of(client, page_size=3, page_token=token) == (order[3:], "")
    operator = world.client(roles=("user", "operator"))
    for other, more in (
        (world.client("u7"), {}),
        (operator, {"all_users": True}),
        (client, {"page_token": token[:-2] + "AA"}),
    ):
        async with refused("INVALID_PAGE_TOKEN"):
            await sessions_of(other, **{"page_token": token, **more})


async def test_sessions_that_move_between_pages_are_not_lost(world: World) -> None:
    client = world.client()
    made = [await client.start_session() for _ in range(7)]
    page, token = await sessions_of(client, page_size=2)
    assert page == [made[6], made[5]]
    await say(client, "moves", session_id=made[0])
    await say(client, "moves", session_id=made[5])
    late = await client.start_session()
    rest: list[str] = []
    while token:
        page, token = await sessions_of(client, page_size=2, page_token=token)
        rest += page
    assert rest == [made[4], made[3], made[2], made[1], *sorted((made[0], made[5]))]
    assert late not in rest


async def test_operators_and_auditors_see_whose_sessions_there_are_and_nothing_of_them(world: World) -> None:
    mine, theirs = world.client("u7"), world.client("u8")
    await say(mine, "secret of u7")
    await say(theirs, "secret of u8")
    await say(world.client(tenant="other"), "secret of another tenant")
    for role in ("operator", "auditor"):
        request = sessions_pb2.ListSessionsRequest(all_users=True)
        overseer = world.client("o1", roles=(role,))
        answer = await overseer.sessions.ListSessions(request, metadata=overseer.metadata)
        assert [(s.id, s.user, s.turn_count) for s in answer.sessions] == [
            (theirs.session_id, "u8", 1), (mine.session_id, "u7", 1),
        ]  # fmt: skip
        assert await sessions_of(overseer) == ([], "")
        reader = world.client("o1", roles=(role, "user"))
        async with refused("SESSION_NOT_FOUND"):
            await reader.sessions.GetSession(
                sessions_pb2.GetSessionRequest(id=mine.session_id), metadata=reader.metadata
            )
        assert await search(reader, "secret") == []
    for roles_ in (("user",), ("agent",)):
        async with refused("ROLE_REQUIRED"):
            await sessions_of(world.client(roles=roles_), all_users=True)
