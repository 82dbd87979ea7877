"""The tables of policy keep what every table must keep."""

import pytest
from memoryos_postgres import roles
from memoryos_postgres.errors import AccessRefused
from memoryos_testing.postgres import Clone, DatabaseFactory, admin_execute
from memoryos_testing.schema import assert_columns_classified, assert_row_security, assert_tenant_first

pytestmark = pytest.mark.integration


async def test_conventions(database: Clone) -> None:
    await assert_columns_classified(database.admin_dsn)
    await assert_tenant_first(database.admin_dsn)
    await assert_row_security(database.admin_dsn)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE policy.decisions SET effect = 'allow'",
        "INSERT INTO policy.decisions (tenant, decision_id, create_time) VALUES ('acme', 'd', now())",
        "UPDATE policy.reviews SET expire_time = now()",
        "UPDATE policy.reviews SET action_digest_hmac = ''",
        "UPDATE policy.review_votes SET reviewer = 'x'",
    ],
)
async def test_the_service_cannot_rewrite_the_past(database_factory: DatabaseFactory, statement: str) -> None:
    db = await database_factory(roles.POLICY)
    with pytest.raises(AccessRefused):
        async with db.tenant("acme") as tx:
            await tx.execute(statement)


async def test_only_erasure_deletes(database: Clone, database_factory: DatabaseFactory) -> None:
    db = await database_factory(roles.POLICY)
    await admin_execute(
        database,
        "INSERT INTO policy.decisions (tenant, decision_id, call_id, attempt, skill, skill_version, action_digest_hmac,"
        " effect, reasons, agent_message, bundle_revision, user_name, chain, session_id, task_id, service, trace_id,"
        " input) VALUES ('acme', 'd', 'c', 1, 's', '1', '', 'deny', '[]', '', '', 'u', '{}', '', '', '', '', '')",
    )
    async with db.tenant("acme") as tx:
        assert await tx.execute("DELETE FROM policy.decisions") == 0
    async with db.upkeep("globex") as tx:
        assert await tx.execute("DELETE FROM policy.decisions") == 0
    async with db.upkeep("acme") as tx:
        assert await tx.execute("DELETE FROM policy.decisions") == 1
