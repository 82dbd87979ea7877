"""`mos keys`: turn the epoch, straight in the database as memoryos_owner."""

from __future__ import annotations

import typer
from memoryos_core.config import ConfigError, load
from memoryos_core.errors import MemoryOSError
from memoryos_core.sections import ALL_SECTIONS, SealingSection
from memoryos_postgres import Database, PostgresSection, roles
from memoryos_postgres.epoch import turn_epoch
from memoryos_postgres.keyring import EpochKeyInvalid
from memoryos_postgres.secret_files import SecretFileUnsafe

from memoryos_cli.caller import LOCAL, Caller, command
from memoryos_cli.exits import CliError, Exit


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Keys that seal content.", no_args_is_help=True)
    app.add_typer(group, name="keys")
    command(group, "rotate", options=LOCAL)(rotate)


async def rotate(caller: Caller) -> None:
    """Turn the epoch: wrap every data key anew and destroy the old epoch key; services go on meanwhile.

    Afterwards old backups and the write-ahead log open nothing that was erased
    before. Back up the epoch key file apart from the database, and keep its
    newest copy only. A rotation that was interrupted is finished by the next one.
    """
    try:
        config = load([PostgresSection, SealingSection], file=caller.data.config_file(), environ={}, known=ALL_SECTIONS)
    except ConfigError as error:
        raise CliError(str(error), exit_code=Exit.USAGE) from None
    try:
        async with Database(config[PostgresSection], roles.OWNER) as database:
            turned = await turn_epoch(database, config[SealingSection].epoch_key_file)
    except MemoryOSError as error:
        raise CliError(f"the keys cannot be turned: {error}", exit_code=Exit.NOT_RUNNING) from None
    except (EpochKeyInvalid, SecretFileUnsafe, OSError) as error:
        raise CliError(str(error), exit_code=Exit.OTHERWISE) from None
    if caller.output.as_json:
        caller.output.value({"epoch_id": turned.epoch_id, "key_count": turned.key_count})
        return
    caller.output.line(f"epoch {turned.epoch_id} wraps {turned.key_count} keys; the old epoch key is destroyed")
