"""The network guard: where the gateway goes and where not (N1, N2), proven by listeners and by every connect."""

import asyncio
import ipaddress
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from memoryos_toolgateway.adapters.http_sender import Contact, Limits
from memoryos_toolgateway.adapters.network_guard import NetworkGuard
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.domain.addresses import AddressRefused, Networks, embedded, kind_of, parse_endpoint
from memoryos_toolgateway.domain.http_template import CannotRender, RenderedRequest, render
from memoryos_toolgateway.domain.redirects import followed
from memoryos_toolgateway.domain.skill import RequestTemplate
from memoryos_toolgateway.errors import SkillFileInvalid

from .bench import skill_document
from .certificates import Authority
from .edges import Answers, sender_of
from .eval_data import eval_data
from .upstream import Upstream

LIMITS = Limits(timeout_s=2, bytes_max=100_000)
_connects: list[list[Any]] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        for seen in _connects:
            seen.append(arguments[1][:2])


sys.addaudithook(_watch)


@contextmanager
def connects() -> Iterator[list[Any]]:
    """Every address that this process connects to within the block."""
    seen: list[Any] = []
    _connects.append(seen)
    try:
        yield seen
    finally:
        _connects.remove(seen)


@asynccontextmanager
async def listener(host: str = "127.0.0.1", port: int = 0, tls: Any = None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that notes what it gets and answers 200."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(b"")
        try:
            heads[-1] = await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, port, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()


def get(endpoint: str, target: str = "/", scheme: str = "http", **more: Any) -> RenderedRequest:
    return RenderedRequest(method="GET", scheme=scheme, endpoint=endpoint, target=target, **more)


def ssrf_urls() -> list[str]:
    return [row["url"] for row in eval_data("security/ssrf_urls.jsonl")]


@pytest.mark.parametrize(
    "text",
    ["127.1:80", "127.0.1:80", "0:80", "2130706433:80", "0x7f000001:80", "0x7f.1:80", "0251.0376.0251.0376:80",
     "0127.0.0.1:80", "q177.0.0.1:80", "425.510.425.510:80", "7147006462:80", "127.0.0.1.:80", "localhost.:80",
     "ⓛocalhost:80", "１２７.0.0.1:80", "127。0。0。1:80", "exаmple.org:80", "a@b.org:80", "[::1%eth0]:80",
     "[::1%25lo]:80",
     "[fe80::1%1]:80", "::1:80", "example.org", "example.org:", "example.org:0", "example.org:080", "example.org:65536",
     "example.org:+80", "example.org:８０", "example.org: 80", "a b.org:80", "a\tb.org:80", "a..b:80", ".a:80", "-a:80",
     "a-:80", "127.0.0.1!:80", "a/b:80", "a\\b:80", "a%2e.org:80", "a#b:80", "a?b:80", "a\x00.org:80", ":80",
     "a" * 64 + ":80", ".".join(["a" * 60] * 5) + ":80", "http://a.org:80", "[::ffff:127.0.0.1:80", "example.0x7f:80"],
    ids=ascii,
)  # fmt: skip
def test_an_endpoint_is_spelled_one_way_only(text: str):
    with pytest.raises(AddressRefused):
        parse_endpoint(text)


def test_one_host_has_one_endpoint():
    assert str(parse_endpoint("Example.ORG:443")) == "example.org:443"
    assert str(parse_endpoint("[0:0:0:0:0:0:0:1]:80")) == "[::1]:80"
    assert parse_endpoint("xn--fsqu00a.xn--0zwm56d:80").address is None


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.0.1", "169.254.169.254",
     "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1",
     "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
     "168.63.129.16", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1",
     "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::", "2001:20::1", "2001:db8::1",
     "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1",
     "ff02::1", "2600::5efe:7f00:1", "2600::200:5efe:a00:1"],
)  # fmt: skip
def test_what_is_not_public_is_known(text: str):
    address = ipaddress.ip_address(text)
    assert kind_of(address)
    with pytest.raises(AddressRefused):
        Networks().check(parse_endpoint("example.org:80"), address)


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1"]
)
def test_what_is_public_is_open(text: str):
    Networks().check(parse_endpoint("example.org:80"), ipaddress.ip_address(text))


def test_only_what_is_listed_is_open_and_no_address_in_disguise():
    networks = Networks.parse(["10.0.0.0/8", "127.0.0.1:8700", "mes.local:80", "64:ff9b::/96", "169.254.0.0/16"])
    here = parse_endpoint("example.org:80")
    networks.check(here, ipaddress.ip_address("10.9.9.9"))
    networks.check(parse_endpoint("127.0.0.1:8700"), ipaddress.ip_address("127.0.0.1"))
    networks.check(parse_endpoint("mes.local:80"), ipaddress.ip_address("192.168.1.1"))
    networks.check(here, ipaddress.ip_address("64:ff9b::808:808"))
    networks.check(here, ipaddress.ip_address("64:ff9b::a01:101"))
    for endpoint, address in [
        ("example.org:80", "127.0.0.1"), ("127.0.0.1:8701", "127.0.0.1"), ("mes.local:81", "192.168.1.1"),
        ("example.org:80", "::ffff:10.0.0.1"), ("example.org:80", "64:ff9b::7f00:1"),
        ("example.org:80", "169.254.169.254"), ("mes.local:80", "169.254.169.254"),
    ]:  # fmt: skip
        with pytest.raises(AddressRefused):
            networks.check(parse_endpoint(endpoint), ipaddress.ip_address(address))
    Networks.parse(["169.254.169.254/32"]).check(here, ipaddress.ip_address("169.254.169.254"))
    for wrong in ("10.0.0.1/8", "example.org", "http://x:1", "*", "127.1:80", ""):
        with pytest.raises(AddressRefused):
            Networks.parse([wrong])


def test_embedded_addresses_are_seen():
    for text in ("::ffff:1.2.3.4", "2002:102:304::", "64:ff9b::102:304", "::1.2.3.4", "2600::5efe:102:304"):
        assert str(embedded(ipaddress.ip_address(text))) == "1.2.3.4", text


async def test_names_outside_of_the_allow_list_are_not_even_resolved():
    """N2: data does not leave in questions to name servers."""
    resolver = Answers(["93.184.216.34"])
    guard = NetworkGuard(Networks(), resolver)
    for name in (
        "deadbeef.evil.example.org:80",
        "example.org:81",
        "localhost:80",
        "foo:80",
        "metadata.google.internal:80",
    ):
        with pytest.raises(AddressRefused):
            guard.check(name, ("example.org:80",) if "evil" in name or "81" in name else (name,))
    assert resolver.asked == []


@pytest.mark.parametrize(
    "answer",
    [OSError("NXDOMAIN"), [], ["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["93.184.216.34", "::ffff:10.0.0.1"],
     ["169.254.169.254"], ["no address"], ["fe80::1%eth0"], [f"8.8.{n}.1" for n in range(40)]],
    ids=ascii,
)  # fmt: skip
async def test_one_bad_address_or_none_refuses_the_name(answer: Any):
    with connects() as seen:
        sent = await sender_of((), Answers(answer)).send(get("example.org:80"), LIMITS)
    assert sent.contact is Contact.REFUSED
    assert seen == []


async def test_a_resolver_that_does_not_answer_is_not_waited_for():
    class Never:
        async def resolve(self, host: str, port: int) -> list[str]:
            await asyncio.Event().wait()
            return []

    async with asyncio.timeout(3):
        assert (await sender_of((), Never()).send(get("example.org:80"), LIMITS)).contact is Contact.REFUSED


async def test_the_judged_address_is_the_one_that_is_reached():
    """N1: the second answer of a rebinding name server is not used for the first request, and judged for the second."""
    resolver = Answers(["127.0.0.2"], ["127.0.0.1"])
    async with listener("127.0.0.2") as (port, heads), listener("127.0.0.1", port) as (_, bad):
        sender = sender_of(("127.0.0.2/32",), resolver)
        with connects() as seen:
            first = await sender.send(get(f"rebind.example.org:{port}"), LIMITS)
            second = await sender.send(get(f"rebind.example.org:{port}"), LIMITS)
    assert (first.contact, second.contact) == (Contact.ANSWERED, Contact.REFUSED)
    assert seen == [("127.0.0.2", port)]
    assert resolver.asked == ["rebind.example.org"] * 2
    assert f"host: rebind.example.org:{port}".encode() in heads[0]
    assert bad == []


async def test_the_next_address_is_tried_when_one_does_not_answer():
    async with listener("127.0.0.3") as (port, heads):
        sent = await sender_of(("127.0.0.0/8",), Answers(["127.0.0.2", "127.0.0.3"])).send(
            get(f"two.example.org:{port}"), LIMITS
        )
    assert (sent.contact, len(heads)) == (Contact.ANSWERED, 1)


async def test_nobody_listening_is_proof_that_nothing_was_sent():
    async with listener() as (port, _):
        pass
    assert (await sender_of().send(get(f"127.0.0.1:{port}"), LIMITS)).contact is Contact.NOT_SENT


async def test_the_certificate_is_the_names_and_not_the_addresses(tmp_path: Path):
    authority = Authority(tmp_path)
    tls = authority.server("crm.example.org")
    async with listener("127.0.0.2", tls=tls) as (port, heads):
        sender = sender_of(("127.0.0.2/32",), Answers(["127.0.0.2"]), authority.file)
        good = await sender.send(get(f"crm.example.org:{port}", scheme="https"), LIMITS)
        other = await sender.send(get(f"mes.example.org:{port}", scheme="https"), LIMITS)
        unknown = await sender_of(("127.0.0.2/32",), Answers(["127.0.0.2"])).send(
            get(f"crm.example.org:{port}", scheme="https"), LIMITS
        )
    assert (good.contact, other.contact, unknown.contact) == (Contact.ANSWERED, Contact.NOT_SENT, Contact.NOT_SENT)
    assert len([head for head in heads if head]) == 1


def as_endpoint(url: str, port: int) -> tuple[str, str]:
    """What an integrator might write for a URL: (scheme, host:port), the port that of a listener."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition(":")[0] if parts.netloc.rpartition(":")[2].isdigit() else parts.netloc
    return parts.scheme, f"{host}:{port}"


async def test_no_ssrf_form_works_as_the_endpoint_of_a_skill(tmp_path: Path):
    file = tmp_path / "skill.yaml"
    tried, sender = (
        0,
        sender_of((), Answers(["127.0.0.1"])),
    )  # the attacker's resolver: every name leads to the listener
    async with listener() as (port, heads):
        for url in ssrf_urls():
            scheme, endpoint = as_endpoint(url, port)
            for written, how in ((url, "http"), (endpoint, "http"), (endpoint, scheme)):
                tried += 1
                document = skill_document("do", "ok", "read")
                document["connector"] |= {"endpoint": written, "scheme": how}
                file.write_text(yaml.safe_dump(document, allow_unicode=True))
                with connects() as seen:
                    try:
                        skill = load_skill(file, {})
                    except SkillFileInvalid:
                        continue
                    request = render(skill.connector.request, {"name": "a"})
                    sent = await sender.send(request, LIMITS)
                assert (sent.contact, seen) == (Contact.REFUSED, []), written
    assert tried >= 3 * 92
    assert heads == []


TEMPLATE = {
    "query": RequestTemplate(endpoint="h:1", path="/echo/a", query={"u": "/url"}),
    "header": RequestTemplate(endpoint="h:1", path="/echo/a", headers={"x-url": "{url}"}),
    "body": RequestTemplate(endpoint="h:1", method="POST", path="/echo/a", body="arguments"),
    "path": RequestTemplate(endpoint="h:1", path="/echo/{url}"),
}


@pytest.mark.parametrize("where", TEMPLATE)
async def test_no_ssrf_form_works_as_an_argument(where: str):
    async with listener() as (bad_port, bad), listener() as (port, heads):
        sender = sender_of((f"127.0.0.1:{port}",), Answers(["127.0.0.1"]))
        template = replace(TEMPLATE[where], endpoint=f"127.0.0.1:{port}")
        for url in [*ssrf_urls(), f"http://127.0.0.1:{bad_port}/"]:
            with connects() as seen:
                try:
                    sent = await sender.send(render(template, {"url": url}), LIMITS)
                except CannotRender:
                    continue
            assert (sent.contact, set(seen)) == (Contact.ANSWERED, {("127.0.0.1", port)}), url
            if where == "header":
                assert f"\r\nx-url: {url}\r\n".encode() in heads[-1]
    assert bad == []


async def test_no_ssrf_form_works_as_the_target_of_a_redirect(upstream: Upstream):
    async with listener() as (bad_port, bad):
        sender = sender_of((upstream.address,), Answers(["127.0.0.1"]))
        limits = Limits(timeout_s=2, bytes_max=1000, redirects=5)
        more = [f"http://127.0.0.1:{bad_port}/", f"//127.0.0.1:{bad_port}/", f"http://x@{upstream.address}/"]
        for url in [*ssrf_urls(), *more]:
            upstream.location = url
            with connects() as seen:
                sent = await sender.send(get(upstream.address, "/away/a"), limits)
            assert (sent.status, seen) == (302, [("127.0.0.1", upstream.port)]), url
    assert bad == []


async def test_a_redirect_is_followed_where_the_skill_says_so_and_at_the_same_endpoint(upstream: Upstream):
    sender = sender_of()
    for location in (f"http://{upstream.address}/ok/b", "/ok/b", "../ok/b", "b/../../ok/b?x=1"):
        upstream.location = location
        for redirects, status in ((0, 302), (1, 200)):
            limits = Limits(timeout_s=2, bytes_max=1000, redirects=redirects)
            sent = await sender.send(get(upstream.address, "/away/a", headers={"authorization": "s"}), limits)
            assert sent.status == status, location
    assert all(request.headers["authorization"] == "s" for request in upstream.requests)
    upstream.location = "/away/a"
    before = len(upstream.requests)
    sent = await sender.send(get(upstream.address, "/away/a"), Limits(timeout_s=2, bytes_max=1000, redirects=3))
    assert (sent.status, len(upstream.requests) - before) == (302, 4)


def test_a_redirect_changes_no_method_and_takes_no_credentials_elsewhere():
    request = get("example.org:443", "/a", "https", headers={"authorization": "s", "accept": "x", "x-key": "k"})
    assert followed(request, 302, "/b").headers == request.headers
    for location in (
        "http://example.org/b",
        "http://example.org:443/b",
        "https://example.com/",
        "//evil.org/",
        "",
        "https://example.org.:443/",
        "https://user@example.org/",
        "javascript:x",
        "/a\r\nx: y",
        "/数",
        "/\\evil",
    ):
        assert followed(request, 302, location) is None, location
    plain = get("example.org:443", "/a", "http", headers=request.headers)
    assert followed(plain, 301, "https://example.org/b").headers == {"accept": "x"}
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        moved = RenderedRequest(method=method, scheme="https", endpoint="example.org:443", target="/a", body=b"{}")
        assert all(followed(moved, status, "/b") is None for status in (301, 302, 303, 307, 308))
    assert followed(request, 200, "/b") is None


async def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch):
    async with listener() as (proxy, seen_by_proxy), listener() as (port, heads):
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
        assert (await sender_of().send(get(f"127.0.0.1:{port}"), LIMITS)).contact is Contact.ANSWERED
    assert (len(heads), seen_by_proxy) == (1, [])
