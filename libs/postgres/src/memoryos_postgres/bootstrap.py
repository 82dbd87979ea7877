"""Make the database, its extensions and its roles; safe to repeat.

Works on the embedded server and on any external one, given a DSN with the
rights for CREATE ROLE, CREATE DATABASE and CREATE EXTENSION vector.
"""

from pathlib import Path

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from memoryos_postgres import roles
from memoryos_postgres.errors import translated
from memoryos_postgres.secret_files import ensure_secret

EXTENSIONS = ("vector", "btree_gin")
_BOOTSTRAP_LOCK = 0x4D4F5301
_BUILTIN_LOCALE_VERSION = 170000


async def bootstrap(admin_dsn: str, database: str, secrets_dir: Path) -> None:
    """Bring the server to the point where `migrate` can run.

    Every role gets the password in its secret file, which is made when absent.
    Repeating it changes nothing, or sets a role's password back to its file.
    """
    with translated():
        async with await AsyncConnection.connect(admin_dsn, autocommit=True) as admin:
            # The lock ends with the connection; two first starts at once wait for each other.
            await admin.execute("SELECT pg_advisory_lock(%s)", (_BOOTSTRAP_LOCK,))
            for role in roles.ALL:
                await _ensure_role(admin, role, ensure_secret(roles.password_file(secrets_dir, role)))
            await _join_owner(admin)
            await _ensure_database(admin, database)
            async with await AsyncConnection.connect(make_conninfo(admin_dsn, dbname=database)) as inside:
                await prepare_database(inside, database)


async def prepare_database(inside: AsyncConnection, database: str) -> None:
    """Install the extensions in `database` and close it to everybody but our roles; `inside` is connected to it."""
    for extension in EXTENSIONS:
        await inside.execute(sql.SQL("CREATE EXTENSION IF NOT EXISTS {}").format(sql.Identifier(extension)))
    await inside.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    await restrict_database(inside, database)


async def restrict_database(admin: AsyncConnection, database: str) -> None:
    """Let only our roles connect (a database cloned from a template does not inherit this)."""
    name = sql.Identifier(database)
    everyone = sql.SQL(", ").join(sql.Identifier(role) for role in roles.ALL)
    await admin.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))
    await admin.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(name, everyone))


async def _ensure_role(admin: AsyncConnection, role: str, password: str) -> None:
    found = await (await admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))).fetchone()
    verb = sql.SQL("ALTER ROLE" if found else "CREATE ROLE")
    # The client hashes it: the clear password is in no statement log.
    encrypted = admin.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    await admin.execute(
        sql.SQL(
            "{} {} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION NOINHERIT PASSWORD {}"
        ).format(verb, sql.Identifier(role), sql.Literal(encrypted))
    )


async def _join_owner(admin: AsyncConnection) -> None:
    """Let memoryos_owner act for the owner of the dense index, so that one role runs all migrations."""
    # INHERIT is the role's own before PostgreSQL 16, and what GRANT takes over from it since.
    await admin.execute(sql.SQL("ALTER ROLE {} INHERIT").format(sql.Identifier(roles.OWNER)))
    await admin.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(roles.INDEXER), sql.Identifier(roles.OWNER)))


async def _ensure_database(admin: AsyncConnection, database: str) -> None:
    if await (await admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,))).fetchone():
        return
    await create_database(admin, database, template="template0")


async def create_database(admin: AsyncConnection, database: str, *, template: str) -> None:
    """Create `database`, owned by memoryos_owner, UTF-8; byte order from template0, else as the template has it."""
    form = sql.SQL("STRATEGY FILE_COPY")
    if template == "template0" and admin.info.server_version >= _BUILTIN_LOCALE_VERSION:
        # Independent of the operating system: an update of its library cannot break an index.
        form = sql.SQL("ENCODING 'UTF8' LOCALE 'C' LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'")
    elif template == "template0":
        form = sql.SQL("ENCODING 'UTF8' LOCALE 'C'")
    owner = sql.Identifier(roles.OWNER)
    if not await _may_give_away(admin):
        # A managed server's administrator is no superuser and must be a member of the owner to be.
        await admin.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(owner))
    try:
        await admin.execute(
            sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {} {}").format(
                sql.Identifier(database), owner, sql.Identifier(template), form
            )
        )
    except psycopg.errors.DuplicateDatabase:
        return


async def _may_give_away(admin: AsyncConnection) -> bool:
    row = await (await admin.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")).fetchone()
    return bool(row and row[0])
