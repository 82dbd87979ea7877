"""What skills need of the configuration, looked at when the gateway starts: nobody finds out by a failed call."""

from __future__ import annotations

from collections.abc import Iterator

from memoryos_toolgateway.adapters.network_guard import NetworkGuard
from memoryos_toolgateway.adapters.secrets import SecretMissing, Secrets
from memoryos_toolgateway.adapters.token_exchange import TokenExchanges
from memoryos_toolgateway.domain.addresses import AddressRefused
from memoryos_toolgateway.domain.http_template import secret_names
from memoryos_toolgateway.domain.skill import BuiltinConnector, Exchange, Skill, SmtpConnector
from memoryos_toolgateway.errors import SkillFileInvalid
from memoryos_toolgateway.registry import SkillRegistry


def check_needs(registry: SkillRegistry, guard: NetworkGuard, secrets: Secrets, exchanges: TokenExchanges) -> None:
    """Raise SkillFileInvalid for a skill whose endpoint, secret or token exchange the configuration does not allow.

    No name is resolved here: whether its addresses are public shows at each call.
    """
    for found in registry.found():
        if found.quarantined:
            continue
        for where, endpoint, names, exchange in _needs(found.skill):
            try:
                guard.check(endpoint, (endpoint,))
                secrets.read(names)
            except AddressRefused as refused:
                raise SkillFileInvalid(found.file, f"{where}/endpoint", f"{endpoint} {refused}") from None
            except SecretMissing as missing:
                raise SkillFileInvalid(found.file, where, str(missing)) from None
            if exchange is not None and exchange.server not in exchanges.names():
                raise SkillFileInvalid(
                    found.file,
                    f"{where}/exchange/server",
                    f"{exchange.server} is not in the configuration tool-gateway.token_exchanges",
                )


def _needs(skill: Skill) -> Iterator[tuple[str, str, frozenset[str], Exchange | None]]:
    connector, lookup = skill.connector, skill.resource.lookup
    if isinstance(connector, SmtpConnector):
        names = frozenset({connector.password_secret} - {""})
        yield "/connector", connector.endpoint, names, None
    elif not isinstance(connector, BuiltinConnector):
        yield "/connector", connector.request.endpoint, secret_names(connector.request), connector.exchange
    if lookup is not None:
        yield "/resource/lookup", lookup.request.endpoint, secret_names(lookup.request), lookup.exchange
