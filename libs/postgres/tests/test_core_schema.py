"""DESIGN §2 holds for schema core; the checks themselves notice what is wrong."""

import pytest
from memoryos_testing import assert_columns_classified, assert_row_security, assert_tenant_first
from memoryos_testing.postgres import admin_execute


async def test_the_core_schema_keeps_the_rules(database):
    await assert_columns_classified(database.admin_dsn)
    await assert_tenant_first(database.admin_dsn)
    await assert_row_security(database.admin_dsn)


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("CREATE TABLE core.t (tenant text PRIMARY KEY)", assert_columns_classified),
        ("ALTER TABLE core.audit ADD note text", assert_columns_classified),
        (
            "ALTER TABLE core.audit ADD n text; COMMENT ON COLUMN core.audit.n IS 'secret: '",
            assert_columns_classified,
        ),
        ("CREATE TABLE core.t (id int PRIMARY KEY, tenant text)", assert_tenant_first),
        ("CREATE UNIQUE INDEX ON core.audit (seq)", assert_tenant_first),
        ("ALTER TABLE core.audit NO FORCE ROW LEVEL SECURITY", assert_row_security),
        ("ALTER TABLE core.audit DISABLE ROW LEVEL SECURITY", assert_row_security),
        ("ALTER TABLE core.audit OWNER TO memoryos_memoryfs", assert_row_security),
    ],
)
async def test_the_checks_notice(database, statement, check):
    await admin_execute(database, statement)
    with pytest.raises(AssertionError):
        await check(database.admin_dsn)
