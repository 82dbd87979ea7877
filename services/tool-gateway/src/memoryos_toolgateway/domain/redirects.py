"""Where an answer's redirect may lead: to the same endpoint, by a request that changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urljoin, urlsplit

from memoryos_toolgateway.domain.addresses import AddressRefused, parse_endpoint
from memoryos_toolgateway.domain.http_template import URL_BYTES_MAX, RenderedRequest

STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_PORTS: Final = {"http": 80, "https": 443}
_PLAIN: Final = re.compile(r"[\x21-\x5b\x5d-\x7e]+\Z")
"""ASCII without white space, controls and the backslash, which two readers of a URL read differently."""
_KEPT_HEADERS: Final = frozenset({"accept", "accept-language"})


def followed(request: RenderedRequest, status: int, location: str) -> RenderedRequest | None:
    """Give the request that follows a redirect, or None when it is none or is not to be followed.

    Only GET and HEAD follow, and keep their method. The target must be the
    endpoint that the request went to, spelled in the one way that endpoints
    are (no user, no other form of the host); https does not fall back to http.
    Another origin gets nothing that was meant for the first: only headers that
    say how to answer are kept.
    """
    if status not in STATUSES or request.method not in ("GET", "HEAD"):
        return None
    if len(location) > URL_BYTES_MAX or not _PLAIN.match(location):
        return None
    try:
        target = urlsplit(urljoin(request.url, location))
        if target.scheme not in _PORTS or "@" in target.netloc:
            return None
        has_port = re.search(r":[0-9]+\Z", target.netloc)
        endpoint = parse_endpoint(target.netloc if has_port else f"{target.netloc}:{_PORTS[target.scheme]}")
        same = endpoint == parse_endpoint(request.endpoint)
    except (ValueError, AddressRefused):
        return None
    if not same or (request.scheme == "https" and target.scheme == "http"):
        return None
    path = target.path or "/"
    headers: Mapping[str, str] = request.headers
    if target.scheme != request.scheme:
        headers = {name: value for name, value in headers.items() if name.lower() in _KEPT_HEADERS}
    return replace(
        request,
        scheme=target.scheme,
        target=path + (f"?{target.query}" if target.query else ""),
        headers=headers,
        body=None,
    )
