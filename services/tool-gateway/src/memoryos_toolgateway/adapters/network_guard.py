"""The one way out of the tool gateway: a name is resolved once, all its addresses are judged, one of them is reached.

An endpoint that may not be reached is refused before anything leaves this
machine; a name that no caller may reach is not even resolved, so nothing can
be told to a name server by asking for it. What was judged is what is connected
to: a resolver that answers differently the next time is not asked again.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol

import httpcore

from memoryos_toolgateway.domain.addresses import Address, AddressRefused, Endpoint, Networks, parse_endpoint

RESOLVE_S_MAX: Final = 3.0
ADDRESSES_MAX: Final = 32
_THREADS: Final = 8
"""Look-ups that hang take no more threads than these; further ones are refused when their time is up."""


def tls_context(ca_file: Path | None = None) -> ssl.SSLContext:
    """Give what certificates are checked against: the system's authorities and those of a file.

    Raises OSError or ssl.SSLError (which is one) for a file that holds none.
    """
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=str(ca_file))
    return context


class Resolver(Protocol):
    """Looks names up."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Give all addresses of a name, or raise OSError."""


class SystemResolver:
    """Asks the system's resolver, in threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="resolve")

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Give all addresses of a name, or raise OSError."""
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return [str(entry[4][0]) for entry in found]

    def close(self) -> None:
        """Let the threads go; look-ups that hang are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class NetworkGuard:
    """Says which addresses an endpoint stands for, and connects to no other."""

    def __init__(
        self, networks: Networks, resolver: Resolver | None = None, *, resolve_s_max: float = RESOLVE_S_MAX
    ) -> None:
        self._networks = networks
        self._resolver = resolver or SystemResolver()
        self._resolve_s_max = resolve_s_max

    def close(self) -> None:
        """Let the resolver go."""
        if isinstance(self._resolver, SystemResolver):
            self._resolver.close()

    def check(self, endpoint: str, allowed: Collection[str]) -> Endpoint:
        """Give the endpoint, or raise AddressRefused when it is not `allowed`, or not to be reached whatever it is."""
        parsed = parse_endpoint(endpoint)
        if parsed not in [parse_endpoint(one) for one in allowed]:
            raise AddressRefused("is not an endpoint of this skill")
        self._networks.check_name(parsed)
        return parsed

    async def addresses(self, endpoint: Endpoint) -> tuple[Address, ...]:
        """Give every address of the endpoint; raises AddressRefused when one may not be reached or none is known."""
        self._networks.check_name(endpoint)
        if endpoint.address is not None:
            return (endpoint.address,)
        try:
            async with asyncio.timeout(self._resolve_s_max):
                found = await self._resolver.resolve(endpoint.host, endpoint.port)
            addresses = tuple(dict.fromkeys(ipaddress.ip_address(text) for text in found))
        except (OSError, ValueError, TimeoutError, RuntimeError):
            raise AddressRefused("is a name that cannot be resolved") from None
        if not 0 < len(addresses) <= ADDRESSES_MAX:
            raise AddressRefused(f"is a name of no, or of more than {ADDRESSES_MAX} addresses")
        for address in addresses:
            self._networks.check(endpoint, address)
        return addresses

    async def open_socket(self, endpoint: Endpoint, timeout_s: float) -> socket.socket:
        """Give a connected socket; raises AddressRefused or OSError (TimeoutError), and then nothing was sent."""
        addresses = await self.addresses(endpoint)
        loop = asyncio.get_running_loop()
        error: OSError = OSError("no address")
        async with asyncio.timeout(timeout_s):
            for position, address in enumerate(addresses):
                family = socket.AF_INET if address.version == 4 else socket.AF_INET6
                made = socket.socket(family, socket.SOCK_STREAM)
                made.setblocking(False)
                try:
                    async with asyncio.timeout(timeout_s / (len(addresses) - position)):
                        await loop.sock_connect(made, (str(address), endpoint.port))
                except OSError as failed:
                    made.close()
                    error = failed
                except BaseException:
                    made.close()
                    raise
                else:
                    return made
        raise error


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """httpcore's way to the network for one request: only to `endpoint`, by way of the guard."""

    def __init__(self, guard: NetworkGuard, endpoint: Endpoint) -> None:
        self._guard = guard
        self._endpoint = endpoint
        self._below = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a judged address; raises AddressRefused, httpcore.ConnectError or ConnectTimeout."""
        if (host, port) != (self._endpoint.host, self._endpoint.port):
            raise AddressRefused("is another endpoint than the one that was judged")
        addresses = await self._guard.addresses(self._endpoint)
        failed: Exception = httpcore.ConnectError("no address")
        for position, address in enumerate(addresses):
            share = None if timeout is None else timeout / (len(addresses) - position)
            try:
                return await self._below.connect_tcp(str(address), port, timeout=share, socket_options=socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 -- httpcore's signature
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: upstreams are on the network."""
        raise AddressRefused("is no network address")

    async def sleep(self, seconds: float) -> None:
        """Pause (never asked for: nothing is retried below the journal)."""
        await asyncio.sleep(seconds)
