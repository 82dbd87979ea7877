"""The ground of a service: what all composition roots open in the same order, and close in the reverse one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from memoryos_audit import DenialRecorder, ReadRecorder
from memoryos_core.clock import Clock, SystemClock
from memoryos_core.config import Config
from memoryos_core.ids import IdSource, UlidSource
from memoryos_core.keys import KeySet
from memoryos_core.sections import IdentitySection, SealingSection
from memoryos_core.tokens import TokenVerifier
from memoryos_grpc.config import GrpcSection
from memoryos_grpc.ports import ScopeBound
from memoryos_grpc.server import Server
from memoryos_postgres import Database, PostgresSection
from memoryos_postgres.keyring import PostgresKeyRing, load_epoch_key
from memoryos_telemetry import Telemetry, TelemetrySection, configure

GROUND_SECTIONS: Final = (GrpcSection, TelemetrySection, PostgresSection, IdentitySection, SealingSection)
"""Sections of the configuration that `open_ground` reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a running service stands on."""

    service: str
    config: Config
    clock: Clock
    ids: IdSource
    telemetry: Telemetry
    database: Database
    recorder: ReadRecorder
    denials: DenialRecorder
    keyring: PostgresKeyRing

    def server(self, servicers: Sequence[tuple[Any, Any]], *, bound: ScopeBound | None = None) -> Server:
        """Give the server of `servicers` (pairs of an add function and a servicer), not started yet.

        `bound`: what narrows callers beyond their tokens.
        """
        keys = KeySet.load(self.config[IdentitySection].keys_file)
        return Server(
            self.service,
            servicers,
            verifier=TokenVerifier(keys, self.service, self.clock),
            telemetry=self.telemetry,
            config=self.config[GrpcSection],
            audit=self.denials,
            clock=self.clock,
            bound=bound,
        )


@asynccontextmanager
async def open_ground(config: Config, service: str, role: str, *, clock: Clock | None = None) -> AsyncIterator[Ground]:
    """Give the ground of `service`, whose database role is `role`; what was opened is closed at the end of the block.

    Raises DatabaseUnavailable when the database does not answer in time.
    """
    clock = clock or SystemClock()
    telemetry = configure(config[TelemetrySection], service, clock)
    async with AsyncExitStack() as stack:
        stack.callback(telemetry.shutdown)
        database = await stack.enter_async_context(Database(config[PostgresSection], role))
        recorder = ReadRecorder(database)
        stack.push_async_callback(recorder.close)
        denials = DenialRecorder(recorder, service)
        stack.push_async_callback(denials.close)
        yield Ground(
            service=service,
            config=config,
            clock=clock,
            ids=UlidSource(clock),
            telemetry=telemetry,
            database=database,
            recorder=recorder,
            denials=denials,
            keyring=PostgresKeyRing(load_epoch_key(config[SealingSection].epoch_key_file), clock),
        )
