"""Mails before a real mail server: to whom, with what, once, and what is known when the talk breaks off."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from memoryos_core.clock import SystemClock
from memoryos_core.config import SecretFile
from memoryos_toolgateway.adapters.connector_smtp import MailConnector
from memoryos_toolgateway.adapters.network_guard import NetworkGuard, tls_context
from memoryos_toolgateway.adapters.secrets import Secrets
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.addresses import Networks
from memoryos_toolgateway.domain.calls import Outcome, OutcomeKind
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import ArgumentsInvalid, SkillFileInvalid
from memoryos_toolgateway.ports import Attempt

from .certificates import Authority
from .edges import Answers
from .eval_data import eval_data
from .mail_server import MailServer, serving_mail

RECIPIENTS = {"type": "array", "items": {"type": "string", "x-recipient": True}}


def document(endpoint: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": "mail.send", "version": "1", "description": "Sends a mail.", "effect_class": "non_idempotent",
        "risk": "medium", "timeout_s": 1,
        "parameters": {
            "type": "object", "required": ["to", "subject", "text"],
            "properties": {
                "to": RECIPIENTS, "cc": {"type": "string", "x-recipient": True}, "subject": {"type": "string"},
                "text": {"type": "string"}, "other": {"type": "string"},
            },
        },
        "connector": {
            "type": "smtp", "endpoint": endpoint, "tls": "none", "from": "assistant@factory.example",
            "to": "/to", "cc": "/cc", "subject": "/subject", "body": "/text",
        } | changes,
    }  # fmt: skip


def load(folder: Path, endpoint: str, **changes: Any) -> Skill:
    file = folder / "skill.yaml"
    file.write_text(yaml.safe_dump(document(endpoint, **changes)))
    return load_skill(file, {})


@pytest.fixture
async def mail() -> AsyncIterator[MailServer]:
    async with serving_mail() as server:
        yield server


def connector(
    networks: tuple[str, ...] = ("127.0.0.0/8",), ca_file: Path | None = None, **files: Path
) -> MailConnector:
    return MailConnector(
        guard=NetworkGuard(Networks.parse(networks), Answers(["127.0.0.1"])),
        secrets=Secrets({name: SecretFile(file) for name, file in files.items()}),
        tls=tls_context(ca_file),
        clock=SystemClock(),
    )


async def send(made: Skill, by: MailConnector | None = None, **changes: Any) -> Outcome:
    arguments = {"to": ["a@b.example"], "subject": "s", "text": "t"} | changes
    by = by or connector()
    by.check(made, arguments)
    return await by.attempt(Attempt(skill=made, call_id="call_01", arguments=arguments))


def lines(text: str) -> str:
    """The text with one kind of line end: mail has lines."""
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


async def test_a_mail_arrives_as_it_was_meant(mail: MailServer, tmp_path: Path):
    made = load(tmp_path, mail.address)
    text = "你好,\r\n.\r\nMAIL FROM:<x@y>\r\n.hidden\n数据 🙂"
    outcome = await send(
        made, to=["a@b.example", "c@d.example"], cc="a@b.example", subject="工单 TCK-1 — 停机", text=text
    )
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert outcome.result == b'{"message_id":"<call_01@factory.example>","recipients":2}'
    assert len(mail.kept) == 1
    assert mail.kept[0].mail_from == "assistant@factory.example"
    assert mail.kept[0].rcpt_tos == ["a@b.example", "c@d.example"]
    seen = mail.last()
    assert (seen["subject"], seen["message-id"]) == ("工单 TCK-1 — 停机", "<call_01@factory.example>")
    assert (seen["to"], seen["cc"], seen["from"]) == (
        "a@b.example, c@d.example", "a@b.example", "assistant@factory.example",
    )  # fmt: skip
    assert lines(seen.get_content()) == lines(text)
    assert not made.effect_class.may_repeat


@pytest.mark.parametrize(
    "changes",
    [
        {"to": ["a@b.example\r\nBcc: x@y.example"]}, {"to": ["a@b.example, x@y.example"]}, {"to": ["<a@b.example>"]},
        {"to": ["A <a@b.example>"]}, {"to": ["a@b.example "]}, {"to": ["a"]}, {"to": ["@b.example"]}, {"to": ["a@"]},
        {"to": ["a@b..example"]}, {"to": ["a@-b.example"]}, {"to": ["a@[127.0.0.1]"]}, {"to": ["a%x@b.example"]},
        {"to": ['"a b"@b.example']}, {"to": ["а@b.example"]}, {"to": ["a@bücher.example"]}, {"to": ["a\x00@b.example"]},
        {"to": []}, {"to": ["a@b.example"] * 51}, {"to": ["a" * 250 + "@b.example"]},
        {"cc": "x@y.example\nTo: z@z.example"},
        {"to": [1]}, {"to": {"a": 1}}, {"subject": "a\r\nBcc: x@y.example"}, {"subject": "a\nb"}, {"subject": "a\x00"},
        {"subject": "a\u2028b"}, {"subject": "x" * 501}, {"text": "a\x00b"}, {"subject": 1},
    ],
    ids=ascii,
)  # fmt: skip
async def test_no_argument_adds_a_recipient_or_a_header(mail: MailServer, tmp_path: Path, changes: dict[str, Any]):
    with pytest.raises(ArgumentsInvalid):
        await send(load(tmp_path, mail.address), **changes)
    assert mail.kept == []


async def test_hostile_strings_are_literal_or_refused(mail: MailServer, tmp_path: Path):
    made = load(tmp_path, mail.address)
    strings = [
        *eval_data("security/blns.json"),
        *(row["payload"] for row in eval_data("security/command_injection.jsonl")),
    ]
    for text in strings[::23]:
        try:
            outcome = await send(made, subject=text, text=text)
        except ArgumentsInvalid:
            continue
        assert outcome.kind is OutcomeKind.SUCCEEDED, text
        seen = mail.last()
        assert seen["subject"].strip() == " ".join(text.split(" ")).strip() or text.isspace(), text
        assert lines(seen.get_content()) == lines(text), text
        assert mail.kept[-1].rcpt_tos == ["a@b.example"]
        assert set(map(str.lower, seen.keys())) == {
            "from", "to", "subject", "date", "message-id", "auto-submitted", "content-type",
            "content-transfer-encoding", "mime-version",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("behaviour", "kind", "kept"),
    [
        ("refuse-rcpt", OutcomeKind.REFUSED, 0),
        ("refuse-data", OutcomeKind.REFUSED, 0),
        ("busy", OutcomeKind.REFUSED, 0),
        ("drop-mail", OutcomeKind.NOT_SENT, 0),
        ("drop-data", OutcomeKind.UNKNOWN, 1),
        ("hang-data", OutcomeKind.UNKNOWN, 1),
    ],
)
async def test_what_is_known_when_the_talk_breaks_off(
    mail: MailServer, tmp_path: Path, behaviour: str, kind: OutcomeKind, kept: int
):
    mail.behaviour = behaviour
    outcome = await send(load(tmp_path, mail.address), to=["a@b.example", "x@refused.example"])
    assert (outcome.kind, len(mail.kept)) == (kind, kept)
    assert "sk-secret" not in f"{outcome.agent_message}{outcome.error_code}{outcome.result!r}"


async def test_nobody_listening_and_nowhere_to_go(mail: MailServer, tmp_path: Path):
    async with serving_mail() as gone:
        pass
    assert (await send(load(tmp_path, gone.address))).error_code == messages.NOT_SENT_CODE
    for endpoint in (mail.address, f"mail.example.org:{mail.port}", f"localhost:{mail.port}"):
        outcome = await send(load(tmp_path, endpoint), connector(()))
        assert (outcome.kind, outcome.error_code) == (OutcomeKind.NOT_SENT, messages.NETWORK_REFUSED_CODE)
    assert mail.kept == []


async def test_a_password_goes_over_tls_only(tmp_path: Path):
    secret = tmp_path / "password"
    secret.write_text("pass word\n")
    authority = Authority(tmp_path)
    login = {"tls": "starttls", "username": "bot", "password": "${secret:MAIL}", "identity": "service"}
    async with serving_mail(tls_context=authority.server("mail.example.org"), auth_require_tls=True) as mail:
        made = load(tmp_path, f"mail.example.org:{mail.port}", **login)
        by = connector(ca_file=authority.file, MAIL=secret)
        assert (await send(made, by)).kind is OutcomeKind.SUCCEEDED
        assert mail.logins == [(b"bot", b"pass word")]
        secret.write_text("wrong")
        assert (await send(made, by)).error_code == messages.NO_IDENTITY_CODE
        secret.unlink()
        assert (await send(made, by)).error_code == messages.NO_IDENTITY_CODE
        secret.write_text("pass word")
        assert (await send(made, connector(MAIL=secret))).kind is OutcomeKind.NOT_SENT, "an unknown authority"
        other = load(tmp_path, f"other.example.org:{mail.port}", **login)
        assert (await send(other, by)).kind is OutcomeKind.NOT_SENT, "another name than the certificate's"
        assert len(mail.kept) == 1
    async with serving_mail() as plain:
        made = load(tmp_path, f"mail.example.org:{plain.port}", **login)
        assert (await send(made, connector(MAIL=secret))).kind is OutcomeKind.NOT_SENT, "a server without STARTTLS"
        assert plain.logins == []


@pytest.mark.parametrize(
    ("changes", "where"),
    [

               ({"to": "/other"}, "/connector/to"), ({"to": "/missing"}, "/connector/to"),
        ({"cc": "/subject"}, "/connector/cc"),
        ({"from": "A <a@b.example>"}, "/connector/from"), ({"from": "a@b.example\nx"}, "/connector/from"),
        ({"username": "bot"}, "/connector/password"), ({"password": "${secret:X}"}, "/connector/password"),
        ({"username": "bot", "password": "${secret:X}"}, "/connector/password"),
        ({"username": "bot", "password": "${secret:X}", "tls": "tls"}, "/connector"),
        ({"tls": "maybe"}, "/connector/tls"), ({"endpoint": "localhost"}, "/connector/endpoint"),
    ],
    ids=str,
)  # fmt: skip
def test_a_file_that_hides_a_recipient_or_a_password_is_refused(tmp_path: Path, changes: dict[str, Any], where: str):
    with pytest.raises(SkillFileInvalid) as caught:
        load(tmp_path, **({"endpoint": "127.0.0.1:25"} | changes))
    assert where in str(caught.value)


def test_a_mail_is_sent_once(tmp_path: Path):
    file = tmp_path / "skill.yaml"
    for effect_class in ("read", "idempotent", "keyed"):
        file.write_text(yaml.safe_dump(document("127.0.0.1:25") | {"effect_class": effect_class}))
        with pytest.raises(SkillFileInvalid):
            load_skill(file, {})
