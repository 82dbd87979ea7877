"""The edge to upstreams as tests need it: a guard that lets nobody but loopback in, and no credentials."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from memoryos_core.clock import SystemClock
from memoryos_core.config import SecretFile
from memoryos_toolgateway.adapters.http_edge import HttpEdge
from memoryos_toolgateway.adapters.http_sender import HttpSender
from memoryos_toolgateway.adapters.network_guard import NetworkGuard, Resolver, tls_context
from memoryos_toolgateway.adapters.secrets import Secrets
from memoryos_toolgateway.adapters.token_exchange import TokenExchanges
from memoryos_toolgateway.config import TokenExchange
from memoryos_toolgateway.domain.addresses import Networks

LOOPBACK = ("127.0.0.0/8",)


def sender_of(
    networks: Sequence[str] = LOOPBACK, resolver: Resolver | None = None, ca_file: Path | None = None
) -> HttpSender:
    return HttpSender(NetworkGuard(Networks.parse(networks), resolver, resolve_s_max=0.5), tls_context(ca_file))


def edge_of(
    sender: HttpSender | None = None,
    secrets: Mapping[str, Path] | None = None,
    exchanges: Mapping[str, TokenExchange] | None = None,
) -> HttpEdge:
    sender = sender or sender_of()
    return HttpEdge(
        sender=sender,
        secrets=Secrets({name: SecretFile(path) for name, path in (secrets or {}).items()}),
        exchanges=TokenExchanges(sender, exchanges or {}, SystemClock()),
    )


class Answers:
    """A resolver that answers each question with its next answer; the last stands. It notes who was asked for."""

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer
