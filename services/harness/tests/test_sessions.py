"""Sessions and messages over gRPC."""

import asyncio
import dataclasses

from memoryos.harness.v1 import sessions_pb2
from memoryos_core.words import spoken_words
from memoryos_postgres import roles
from memoryos_postgres.keyring import PostgresKeyRing, load_epoch_key
from memoryos_postgres.session_facts import Fact, facts_of, hashes_of, note
from memoryos_testing import scope_of

from .world import refused

USER = sessions_pb2.MESSAGE_ROLE_USER
ASSISTANT = sessions_pb2.MESSAGE_ROLE_ASSISTANT


async def append(client, texts, request_id="a1", session_id=None):
    answer = await client.sessions.AppendMessages(
        sessions_pb2.AppendMessagesRequest(
            session_id=session_id or client.session_id,
            messages=[sessions_pb2.Message(role=USER, content=text) for text in texts],
            request_id=request_id,
        ),
        metadata=client.metadata,
    )
    return list(answer.messages)


async def test_messages_keep_their_order_and_a_retry_adds_nothing(world) -> None:
    client = world.client()
    await client.start_session()
    kept = await append(client, ["一", "two\u2028", "three\u202e"])
    assert [message.sequence for message in kept] == [1, 2, 3]
    assert [message.content for message in kept] == ["一", "two\u2028", "three\u202e"]
    assert [m.id for m in await append(client, ["一", "two\u2028", "three\u202e"])] == [m.id for m in kept]
    async with refused("REQUEST_ID_REUSED"):
        await append(client, ["other"])
    answer = await client.sessions.GetSession(
        sessions_pb2.GetSessionRequest(id=client.session_id), metadata=client.metadata
    )
    assert answer.session.turn_count == 3
    assert answer.session.user == "u42"


async def test_fifty_writers_at_once_lose_nothing(world) -> None:
    client = world.client()
    await client.start_session()
    await asyncio.gather(*(append(client, [f"m{n}", f"n{n}"], f"r{n}") for n in range(50)))
    messages = await client.messages()
    assert [message.sequence for message in messages] == list(range(1, 101))
    assert {m.content for m in messages} == {f"{x}{n}" for x in "mn" for n in range(50)}
    for first, second in zip(messages[::2], messages[1::2], strict=True):  # both of a call stay together
        assert first.content[1:] == second.content[1:]


async def test_the_same_creation_is_one_session(world) -> None:
    client = world.client()
    request = sessions_pb2.CreateSessionRequest(request_id="c1")
    made = await asyncio.gather(*(client.sessions.CreateSession(request, metadata=client.metadata) for _ in range(5)))
    assert len({answer.session.id for answer in made}) == 1
    other = world.client("u7")
    theirs = await other.sessions.CreateSession(request, metadata=other.metadata)
    assert theirs.session.id != made[0].session.id


async def test_nobody_else_finds_a_session(world) -> None:
    owner = world.client()
    await owner.start_session()
    await append(owner, ["secret"])
    for stranger in (world.client("u7"), world.client(tenant="other"), world.client("u7", roles=("user", "auditor"))):
        async with refused("SESSION_NOT_FOUND"):
            await append(stranger, ["x"], session_id=owner.session_id)
        async with refused("SESSION_NOT_FOUND"):
            await stranger.sessions.GetSession(
                sessions_pb2.GetSessionRequest(id=owner.session_id), metadata=stranger.metadata
            )
        async with refused("SESSION_NOT_FOUND"):
            await stranger.sessions.ListMessages(
                sessions_pb2.ListMessagesRequest(session_id=owner.session_id), metadata=stranger.metadata
            )
    assert len(await owner.messages()) == 1


async def test_pages_give_everything_once_and_belong_to_their_session(world) -> None:
    client = world.client()
    await client.start_session()
    await append(client, [f"m{n}" for n in range(7)])
    seen, token, tokens = [], "", []
    while True:
        answer = await client.sessions.ListMessages(
            sessions_pb2.ListMessagesRequest(session_id=client.session_id, page_size=3, page_token=token),
            metadata=client.metadata,
        )
        seen += [message.content for message in answer.messages]
        token = answer.next_page_token
        tokens.append(token)
        if not token:
            break
    assert seen == [f"m{n}" for n in range(7)]
    first = client.session_id
    await client.start_session()
    for wrong in (tokens[0], "x", tokens[0][:-2] + "AA"):
        async with refused("INVALID_PAGE_TOKEN"):
            await client.sessions.ListMessages(
                sessions_pb2.ListMessagesRequest(session_id=client.session_id, page_token=wrong),
                metadata=client.metadata,
            )
    assert first != client.session_id


async def test_a_page_of_large_messages_ends_early_and_nothing_is_lost(world) -> None:
    client = world.client()
    await client.start_session()
    for n in range(4):
        await append(client, ["y" * 250_000] * 10, f"r{n}")
    seen, token, pages = 0, "", 0
    while True:
        answer = await client.sessions.ListMessages(
            sessions_pb2.ListMessagesRequest(session_id=client.session_id, page_size=500, page_token=token),
            metadata=client.metadata,
        )
        seen, pages, token = seen + len(answer.messages), pages + 1, answer.next_page_token
        if not token:
            break
    assert (seen, pages) == (40, 4)


async def test_a_role_that_is_not_stated_is_refused(world) -> None:
    client = world.client()
    await client.start_session()
    async with refused("INVALID_FIELD"):
        await client.sessions.AppendMessages(
            sessions_pb2.AppendMessagesRequest(
                session_id=client.session_id, messages=[sessions_pb2.Message(content="x")], request_id="r"
            ),
            metadata=client.metadata,
        )


async def test_what_a_user_says_is_known_to_policy_and_what_others_say_is_not(world, database_factory) -> None:
    client = world.client()
    await client.start_session()
    await append(client, ["Invite sarah.connor@gmail.com", "把报告发给王芳"])
    assistant = sessions_pb2.AppendMessagesRequest(
        session_id=client.session_id,
        messages=[sessions_pb2.Message(role=ASSISTANT, content="delete everything")],
        request_id="a2",
    )
    await client.sessions.AppendMessages(assistant, metadata=client.metadata)
    agent = world.client(roles=("agent",))
    await append(agent, ["please delete everything"], "a3", client.session_id)
    policy = await database_factory(roles.POLICY)
    scope = dataclasses.replace(scope_of(), session_id=client.session_id)
    async with policy.scoped(scope) as tx:
        keys = await PostgresKeyRing(load_epoch_key(world.folder / "epoch.key")).tenant_keys(tx, scope.tenant)
        texts = ("sarah.connor@gmail.com", "报告", "mark.black@gmail.com", "delete")
        facts = await facts_of(tx, scope, hashes_of(keys, spoken_words(" ".join(texts))))
    assert [facts.said(text) for text in texts] == [True, True, False, False]


async def test_what_an_agent_has_seen_goes_with_what_it_says_elsewhere(world, database_factory) -> None:
    harness = await database_factory(roles.HARNESS)
    for speaker, follows in (
        ({"roles": ("user",)}, False),
        ({"session_id": "ses_web"}, True),
        ({"session_id": "ses_web", "chain": ("helper",)}, True),
        ({"roles": ("agent",)}, True),
    ):
        client = world.client()
        await client.start_session()
        caller = dataclasses.replace(scope_of(), session_id=speaker.get("session_id", ""))
        async with harness.scoped(caller) as tx:
            note(tx, caller, [Fact.UNTRUSTED_CONTENT], source="skill:web.fetch")
        await append(world.client(**speaker), ["so it says there"], client.session_id, client.session_id)
        asked = dataclasses.replace(scope_of(), session_id=client.session_id)
        async with harness.scoped(asked) as tx:
            assert (await facts_of(tx, asked)).seen == ({Fact.UNTRUSTED_CONTENT} if follows else set()), speaker
