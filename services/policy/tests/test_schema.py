"""The tables of policy keep what every table must keep."""

import pytest
from memoryos_postgres import roles
from memoryos_postgres.errors import AccessRefused
from memoryos_testing.postgres import Clone, DatabaseFactory
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
        "DELETE FROM policy.decisions",
        "INSERT INTO policy.decisions (tenant, decision_id, create_time) VALUES ('acme', 'd', now())",
        "DELETE FROM policy.reviews",
        "UPDATE policy.reviews SET expire_time = now()",
        "UPDATE policy.reviews SET action_digest_hmac = ''",
        "DELETE FROM policy.review_votes",
        "UPDATE policy.review_votes SET reviewer = 'x'",
    ],
)
async def test_the_service_cannot_rewrite_the_past(database_factory: DatabaseFactory, statement: str) -> None:
    db = await database_factory(roles.POLICY)
    with pytest.raises(AccessRefused):
        async with db.tenant("acme") as tx:
            await tx.execute(statement)
