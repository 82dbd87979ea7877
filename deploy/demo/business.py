"""A small manufacturing business behind HTTP: line data (MES), tickets, CRM, refunds and the robot of a work group.

Everything that agents could know is drawn at random when it starts, so an answer
that is right was read here. `counts` says how often each thing was really done.
Run alone (`python deploy/demo/business.py --port 8700`) it serves until stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from login import Login
from memoryos_models.scripted import QuietServer

BODY_BYTES_MAX = 65536


@dataclass
class Books:
    """The records of the business and a count of what was done to them."""

    lines: dict[str, dict[str, Any]]
    tickets: dict[str, dict[str, Any]]
    customers: dict[str, dict[str, Any]]
    orders: dict[str, dict[str, Any]]
    refunds: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    crm_asked_by: list[str] = field(default_factory=list)
    """Whom the CRM saw, as its own login says."""
    group_messages: list[str] = field(default_factory=list)

    @classmethod
    def draw(cls, rng: random.Random) -> Books:
        """Make up a business."""
        serials = rng.sample(range(1000, 9999), 6)
        sellers = ("sales-a", "sales-b")
        return cls(
            lines={
                name: {
                    "line": name,
                    "takt_time_s": round(rng.uniform(31, 89), 1),
                    "product": rng.choice(["WR-1024", "KX-77", "ZB-310"]),
                    "shift": rng.choice(["early", "late"]),
                }
                for name in ("A", "B")
            },
            tickets={
                f"TCK-{serials[0]}": {"environment": "production", "title": "Line A stops every night"},
                f"TCK-{serials[1]}": {"environment": "test", "title": "Test of the ticket form"},
            },
            customers={
                f"C-{serial}": {"name": name, "seller": seller, "level": level}
                for serial, name, seller, level in zip(
                    serials[2:4], ("苏州恒力 Hengli", "Nordwerk GmbH"), sellers, ("VIP", "standard"), strict=True
                )
            },
            orders={
                f"O-{serials[4]}": {"total": round(rng.uniform(2000, 9000), 2), "currency": "EUR"},
                f"O-{serials[5]}": {"total": round(rng.uniform(20, 90), 2), "currency": "EUR"},
            },
        )


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Request:
    """One request, read."""

    method: str
    parts: list[str]
    query: dict[str, str]
    headers: Message
    body: dict[str, Any]


class Business:
    """The rules of the business: one method per thing one can ask of it."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.login = Login()
        self._lock = threading.Lock()

    def answer(self, request: Request) -> dict[str, Any]:
        """Give the answer to one request, or raise Refusal."""
        body = request.body
        with self._lock:
            match (request.method, request.parts):
                case ("GET", ["mes", "lines", name]):
                    self.books.counts["mes.read"] += 1
                    return self._find(self.books.lines, name)
                case ("GET", ["tickets", name]):
                    self.books.counts["ticket.read"] += 1
                    return {"id": name, **self._find(self.books.tickets, name)}
                case ("DELETE", ["tickets", name]):
                    self._find(self.books.tickets, name)
                    self.books.counts["ticket.delete"] += 1
                    del self.books.tickets[name]
                    return {"deleted": name}
                case ("GET", ["crm", "customers", name]):
                    return self._customer(name, request.headers.get("authorization", ""))
                case ("POST", ["login", "token"]):
                    return self._token(request)
                case ("POST", ["robot", "send"]):
                    return self._message(request)
                case ("POST", ["refunds"]):
                    return self._refund(body)
        raise Refusal(404, "no_such_place")

    def _customer(self, name: str, authorization: str) -> dict[str, Any]:
        """A seller sees the own customers: who asks says the token, which this business gave itself."""
        user = self.login.user(authorization.removeprefix("Bearer "))
        if user is None:
            raise Refusal(401, "no_login")
        self.books.crm_asked_by.append(user)
        customer = self._find(self.books.customers, name)
        if customer["seller"] != user:
            raise Refusal(404, "not_found")
        return {"id": name, **customer}

    def _token(self, request: Request) -> dict[str, Any]:
        try:
            return self.login.exchange(request.headers.get("authorization", ""), request.body)
        except PermissionError as refused:
            raise Refusal(400, str(refused)) from None

    def _message(self, request: Request) -> dict[str, Any]:
        """As robots of work groups do it: status 200 in any case, and a number that says whether it was taken."""
        text = request.body.get("text")
        if request.query.get("key") != self.login.robot_key:
            return {"errcode": 93000, "errmsg": "invalid webhook url"}
        if request.body.get("msgtype") != "text" or not isinstance(text, dict):
            return {"errcode": 40008, "errmsg": "invalid message type"}
        self.books.group_messages.append(str(text["content"]))
        return {"errcode": 0, "errmsg": "ok"}

    def _refund(self, body: dict[str, Any]) -> dict[str, Any]:
        order = self._find(self.books.orders, str(body.get("order_id")))
        amount = body.get("amount")
        if not isinstance(amount, int | float) or not 0 < amount <= order["total"]:
            raise Refusal(422, "amount_not_refundable")
        self.books.counts["refund.create"] += 1
        refund = {"refund_id": f"R-{len(self.books.refunds) + 1:04d}", "order_id": body["order_id"], "amount": amount}
        self.books.refunds.append(refund)
        return refund

    @staticmethod
    def _find(records: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
        try:
            return records[name]
        except KeyError:
            raise Refusal(404, "not_found") from None


class Server:
    """The business on a TCP port of the loopback interface."""

    def __init__(self, business: Business, port: int = 0) -> None:
        self._http = QuietServer(("127.0.0.1", port), _handler(business))
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """host:port it listens on."""
        return f"127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(business: Business) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            try:
                size = int(self.headers.get("content-length") or 0)
                if not 0 <= size <= BODY_BYTES_MAX:
                    raise Refusal(413, "too_large")
                status, answer = 200, business.answer(self._read(size))
            except Refusal as refusal:
                status, answer = refusal.status, {"error": refusal.code}
            except ValueError:
                status, answer = 400, {"error": "not_json"}
            payload = json.dumps(answer, ensure_ascii=False).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json; charset=utf-8")
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def _read(self, size: int) -> Request:
            raw, url = self.rfile.read(size), urlsplit(self.path)
            is_form = self.headers.get_content_type() == "application/x-www-form-urlencoded"
            return Request(
                method=self.command,
                parts=[unquote(part) for part in url.path.strip("/").split("/")],
                query=_plain(url.query),
                headers=self.headers,
                body=_plain(raw.decode()) if is_form else json.loads(raw or b"{}"),
            )

        do_GET = do_POST = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent: the story is told elsewhere."""

    return Handler


def _plain(encoded: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(encoded).items()}


def main() -> None:
    """Serve a business until interrupted."""
    parser = argparse.ArgumentParser(description="A small manufacturing business behind HTTP.")
    parser.add_argument("--port", type=int, default=8700)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    books = Books.draw(random.Random(arguments.seed))
    with Server(Business(books), arguments.port) as server:
        print(f"The business listens on http://{server.address}")
        for name in ("tickets", "orders", "customers"):
            print(f"{name}: {', '.join(getattr(books, name))}")
        threading.Event().wait()


if __name__ == "__main__":
    main()
