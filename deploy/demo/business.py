"""A small manufacturing business behind HTTP: line data (MES), tickets, CRM and refunds.

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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

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


class Business:
    """The rules of the business: one method per thing one can ask of it."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self._lock = threading.Lock()

    def answer(self, method: str, parts: list[str], body: dict[str, Any]) -> dict[str, Any]:
        """Give the answer to one request, or raise Refusal."""
        with self._lock:
            match (method, parts):
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
                    return {"id": name, **self._find(self.books.customers, name)}
                case ("POST", ["refunds"]):
                    return self._refund(body)
        raise Refusal(404, "no_such_place")

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
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(business))
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
                body = json.loads(self.rfile.read(size) or b"{}")
                parts = [unquote(part) for part in self.path.split("?")[0].strip("/").split("/")]
                status, answer = 200, business.answer(self.command, parts, body)
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

        do_GET = do_POST = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent: the story is told elsewhere."""

    return Handler


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
