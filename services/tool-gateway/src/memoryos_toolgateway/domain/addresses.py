"""Where the gateway may connect to: endpoints written one way only, and addresses that nobody is led to by accident.

An address outside of the public ranges is refused unless the configuration
lists it. Names stand for what they resolve to, so every address that a name
has is judged, once, and the one that was judged is connected to (see
adapters.network_guard).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PORT_MAX: Final = 65_535
HOST_LENGTH_MAX: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?\Z")
_NUMBER: Final = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}\Z")

_SPECIAL: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        # IANA special-purpose registry: this network, private, shared (CGNAT), loopback, link-local, protocol
        # assignments, documentation, 6to4 relays, benchmarks, multicast, reserved and broadcast.
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # Within the global unicast range of IPv6: Teredo, ORCHID and other protocols, documentation, 6to4.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16")
) | {ipaddress.ip_address("fd00:ec2::254")}
"""Addresses at which clouds give credentials away; only an entry that names the very address opens one."""
_NAT64: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})
_INTERNAL_SUFFIXES: Final = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "home.arpa", "arpa")
"""Names that no public resolver answers for; what answers them is whoever is nearest."""


class AddressRefused(ValueError):
    """The gateway does not connect there; the text says why and holds no argument."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Host and port. `address` is there when the host is one, and None for a name."""

    host: str
    port: int
    address: Address | None

    def __str__(self) -> str:
        """Give host:port, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """Give the endpoint of host:port, or raise AddressRefused.

    One spelling for each host: a name in ASCII (IDN as xn--) without a final
    dot, an IPv4 address as four decimal numbers, IPv6 in brackets without a
    zone. What a browser or libc would read as a number (0x7f.1, 2130706433,
    0251.0376.0251.0376, 127.1) is refused, and so is anything that has a user,
    a path, escapes or white space.
    """
    host, _, port = text.rpartition(":")
    if not _PORT.match(port) or int(port) > PORT_MAX:
        raise AddressRefused("is not host:port")
    if host.startswith("[") and host.endswith("]"):
        return Endpoint(*_ipv6(host[1:-1], int(port)))
    return Endpoint(host.lower(), int(port), _host_address(host.lower()))


def _ipv6(text: str, port: int) -> tuple[str, int, Address]:
    try:
        if "%" in text:
            raise ValueError
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise AddressRefused("is no IPv6 address without a zone") from None
    return str(address), port, address


def _host_address(host: str) -> Address | None:
    """Give the address that a host is, None for a name; raises AddressRefused for what is neither."""
    labels = host.split(".")
    if not host or len(host) > HOST_LENGTH_MAX or not all(_LABEL.match(label) for label in labels):
        raise AddressRefused("is no host name in ASCII without a final dot")
    if not _NUMBER.match(labels[-1]):
        return None
    try:
        return ipaddress.IPv4Address(host)
    except ValueError:
        raise AddressRefused("ends in a number and is no IPv4 address of four decimal numbers") from None


def kind_of(address: Address) -> str:
    """Say what makes an address special, or "" for a public one."""
    if address in METADATA:
        return "metadata"
    if embedded(address) is not None:
        return "embedded"
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_V6:
        return "loopback" if address.is_loopback else "not public"
    if address.is_loopback:
        return "loopback"
    return "not public" if any(address in network for network in _SPECIAL) else ""


def embedded(address: Address) -> ipaddress.IPv4Address | None:
    """Give the IPv4 address that an IPv6 address leads to on some machine: mapped, 6to4, Teredo, NAT64, ISATAP."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    low = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address.teredo:
        return address.teredo[1]
    compatible = int(address) >> 32 == 0 and int(address) > 1
    if compatible or any(address in network for network in _NAT64) or int(address) >> 32 & 0xFFFF_FFFF in _ISATAP:
        return low
    return None


@dataclass(frozen=True, slots=True)
class Networks:
    """What the configuration lists: networks on every port, and endpoints (of addresses or names) on one."""

    networks: tuple[Network, ...] = ()
    endpoints: frozenset[tuple[str, int]] = frozenset()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> Networks:
        """Give what CIDR and host:port entries say; raises AddressRefused for any other."""
        networks: list[Network] = []
        endpoints: set[tuple[str, int]] = set()
        for entry in entries:
            try:
                networks.append(ipaddress.ip_network(entry))
            except ValueError:
                try:
                    endpoint = parse_endpoint(entry)
                except AddressRefused:
                    raise AddressRefused(f"{entry!r} is neither a network (10.1.0.0/16) nor host:port") from None
                endpoints.add((endpoint.host, endpoint.port))
        return cls(tuple(networks), frozenset(endpoints))

    def check(self, endpoint: Endpoint, address: Address) -> None:
        """Raise AddressRefused unless the gateway may connect to `address` for `endpoint`."""
        kind = kind_of(address)
        if not kind:
            return
        inner = embedded(address)
        if not self._lists(endpoint, address, kind):
            raise AddressRefused(f"has a {kind} address that tool-gateway.networks does not list")
        if inner is not None and kind_of(inner) and not self._lists(endpoint, inner, kind_of(inner)):
            raise AddressRefused("has an address that stands for one that tool-gateway.networks does not list")

    def check_name(self, endpoint: Endpoint) -> None:
        """Raise AddressRefused for a name that only a nearby resolver knows, unless it is listed with its port."""
        if endpoint.address is not None:
            self.check(endpoint, endpoint.address)
        elif (endpoint.host, endpoint.port) not in self.endpoints:
            internal = any(
                endpoint.host == suffix or endpoint.host.endswith(f".{suffix}") for suffix in _INTERNAL_SUFFIXES
            )
            if internal or "." not in endpoint.host:
                raise AddressRefused("is an internal name that tool-gateway.networks does not list")

    def _lists(self, endpoint: Endpoint, address: Address, kind: str) -> bool:
        named = (str(address), endpoint.port) in self.endpoints
        if kind == "metadata":
            return named or any(address in net and net.num_addresses == 1 for net in self.networks)
        by_name = endpoint.address is None and (endpoint.host, endpoint.port) in self.endpoints
        return named or by_name or any(address in network for network in self.networks)
