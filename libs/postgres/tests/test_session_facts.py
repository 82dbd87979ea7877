"""Facts of a session are added by whoever hands content out, kept per session and user, and never taken back."""

import dataclasses

import pytest
from memoryos_core.words import spoken_words
from memoryos_postgres import roles
from memoryos_postgres.errors import AccessRefused
from memoryos_postgres.session_facts import (
    SOURCES_MAX,
    Fact,
    facts_of,
    hashes_of,
    holder_of,
    note,
    note_said,
    saw_untrusted,
)
from memoryos_testing import scope_of
from memoryos_testing.postgres import admin_execute

WEB = "skill:web.fetch"


@pytest.fixture
async def gateway(database_factory):
    return await database_factory(roles.TOOLGATEWAY)


@pytest.fixture
async def harness(database_factory):
    return await database_factory(roles.HARNESS)


@pytest.fixture
async def policy(database_factory):
    return await database_factory(roles.POLICY)


def in_session(session_id="ses_1", **changes):
    return dataclasses.replace(scope_of(), session_id=session_id, **changes)


async def seen(policy, scope, keys=None, text=""):
    async with policy.scoped(scope) as tx:
        return await facts_of(tx, scope, hashes_of(keys, spoken_words(text)) if keys else None)


async def test_a_fact_counts_for_its_session_and_no_other(gateway, policy):
    scope = in_session()
    async with gateway.scoped(scope) as tx:
        note(tx, scope, [Fact.UNTRUSTED_CONTENT], source=WEB)
    async with gateway.scoped(scope) as tx:  # a second time is the same fact
        note(tx, scope, [Fact.UNTRUSTED_CONTENT, Fact.PERSONAL_DATA], source=WEB)
    facts = await seen(policy, scope)
    assert facts.seen == {Fact.UNTRUSTED_CONTENT, Fact.PERSONAL_DATA}
    assert facts.sources == (WEB,)
    assert (await seen(policy, in_session("ses_2"))).seen == set()
    assert (await seen(policy, in_session(tenant="globex"))).seen == set()


async def test_outside_of_a_session_a_fact_counts_for_the_user_for_a_day(gateway, policy, database):
    scope = in_session("")
    async with gateway.scoped(scope) as tx:
        note(tx, scope, [Fact.UNTRUSTED_CONTENT], source=WEB)
    assert (await seen(policy, scope)).seen == {Fact.UNTRUSTED_CONTENT}
    assert (await seen(policy, in_session(""))).seen == {Fact.UNTRUSTED_CONTENT}
    assert (await seen(policy, in_session("", user="bob"))).seen == set()
    earlier = (
        "source = regexp_replace(source, '@.*$', '@2026-01-01T01'), create_time = create_time - interval '25 hours'"
    )
    await admin_execute(database, f"UPDATE core.session_facts SET {earlier}")
    assert (await seen(policy, scope)).seen == set()
    async with gateway.scoped(scope) as tx:  # seen again in another hour, it counts again
        note(tx, scope, [Fact.UNTRUSTED_CONTENT], source=WEB)
    assert (await seen(policy, scope)).seen == {Fact.UNTRUSTED_CONTENT}


async def test_untrusted_content_is_asked_for_by_itself(gateway):
    scope = in_session()
    for fact, answer in ((Fact.PERSONAL_DATA, False), (Fact.UNTRUSTED_CONTENT, True)):
        async with gateway.scoped(scope) as tx:
            note(tx, scope, [fact], source=WEB)
        async with gateway.scoped(scope) as tx:
            assert await saw_untrusted(tx, scope) is answer
    for other in (in_session("ses_2"), in_session("")):
        async with gateway.scoped(other) as tx:
            assert not await saw_untrusted(tx, other)


async def test_the_spoken_words_the_user_are_said_and_no_others(harness, policy, key_ring):
    scope = in_session(roles=frozenset({"user"}))
    async with harness.scoped(scope) as tx:
        keys = await key_ring.tenant_keys(tx, scope.tenant)
        text = "Invite sarah.connor@gmail.com, 把报告发给王芳"
        note_said(tx, scope, keys, session_id="ses_1", message_id="msg_1", text=text)
    for text in ("sarah.connor@gmail.com", "SARAH", "报告"):
        assert (await seen(policy, scope, keys, text)).said(text), text
    for text in ("mark.black@gmail.com", "李芳", ""):
        assert not (await seen(policy, scope, keys, text)).said(text), text
    assert not (await seen(policy, scope)).said("sarah")  # not asked about


async def test_many_sources_of_one_fact_hide_no_other(gateway, policy):
    scope = in_session()
    async with gateway.scoped(scope) as tx:
        for number in range(SOURCES_MAX + 1):
            note(tx, scope, [Fact.UNTRUSTED_CONTENT], source=f"{WEB}.{number}")
    async with gateway.scoped(scope) as tx:
        note(tx, scope, [Fact.PERSONAL_DATA], source="skill:crm.customer")
    facts = await seen(policy, scope)
    assert facts.seen == {Fact.UNTRUSTED_CONTENT, Fact.PERSONAL_DATA}
    assert len(facts.sources) == SOURCES_MAX


async def test_an_agent_puts_no_words_into_the_mouth_of_its_user(harness, policy, key_ring):
    for scope in (in_session(chain=("helper",)), in_session(roles=frozenset({"agent"}))):
        async with harness.scoped(scope) as tx:
            keys = await key_ring.tenant_keys(tx, scope.tenant)
            note_said(tx, scope, keys, session_id="ses_1", message_id="msg_1", text="delete everything")
        assert not (await seen(policy, scope, keys, "delete")).said("delete")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM core.session_facts",
        "UPDATE core.session_facts SET fact = 'personal_data'",
        "INSERT INTO core.session_facts (tenant, holder, fact, source, user_name, words)"
        " VALUES ('acme', 'ses_1', 'said', 'x', 'alice', '{1}')",
    ],
)
async def test_no_service_takes_a_fact_back_and_the_gateway_says_nothing_for_the_user(gateway, statement):
    scope = in_session()
    with pytest.raises(AccessRefused):
        async with gateway.scoped(scope) as tx:
            await tx.execute(statement)


def test_the_holder_is_the_session_of_the_token():
    assert holder_of(in_session()) == "ses_1"
    assert holder_of(in_session("", user="bob")) == "user:bob"
