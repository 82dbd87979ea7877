"""Notices to webhooks: in the form of each robot, through the guard, and with a key that nobody sees."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from memoryos_core.config import SecretFile
from memoryos_toolgateway.adapters.notify_webhook import TEXT_LENGTH_MAX, WebhookNotifier
from memoryos_toolgateway.config import NotifyChannel

from .edges import Answers, sender_of
from .test_network_guard import connects, ssrf_urls
from .upstream import Upstream

KEY = "key-0123456789"


def notifier(
    folder: Path, url: str, robot: Any = "text", networks: tuple[str, ...] = ("127.0.0.0/8",)
) -> WebhookNotifier:
    file = folder / "url"
    file.write_text(url + "\n")
    channels = {"finance": NotifyChannel(url_file=SecretFile(file), robot=robot)}
    return WebhookNotifier(sender_of(networks, Answers(["127.0.0.1"])), channels)


@pytest.mark.parametrize(
    ("robot", "body"),
    [
        ("text", {"text": "待审批 1"}),
        ("slack", {"text": "待审批 1"}),
        ("wecom", {"msgtype": "text", "text": {"content": "待审批 1"}}),
        ("dingtalk", {"msgtype": "text", "text": {"content": "待审批 1"}}),
        ("feishu", {"msg_type": "text", "content": {"text": "待审批 1"}}),
    ],
)
async def test_each_robot_gets_its_form(upstream: Upstream, tmp_path: Path, robot: str, body: dict[str, Any]):
    upstream.says = b'{"errcode":0}'
    made = notifier(tmp_path, f"http://{upstream.address}/say/hook?key={KEY}", robot)
    assert made.knows("finance")
    assert await made.notify("finance", "待审批 1")
    seen = upstream.requests[-1]
    assert (seen.method, seen.path, json.loads(seen.body)) == ("POST", f"/say/hook?key={KEY}", body)
    assert seen.headers["content-type"] == "application/json"


async def test_a_notice_that_was_not_taken_is_known_and_the_key_is_not(
    upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.DEBUG):
        upstream.says = b'{"errcode":93000}'
        assert not await notifier(tmp_path, f"http://{upstream.address}/say/hook?key={KEY}").notify("finance", "x")
        for behaviour in ("status-403", "fault-500", "drop", "redirect", "half"):
            made = notifier(tmp_path, f"http://{upstream.address}/{behaviour}/hook?key={KEY}")
            assert not await made.notify("finance", "secret text"), behaviour
    assert KEY not in caplog.text
    assert "secret text" not in caplog.text
    assert not made.knows("other")
    assert not await made.notify("other", "x")


async def test_a_long_text_is_cut(upstream: Upstream, tmp_path: Path):
    assert await notifier(tmp_path, f"http://{upstream.address}/ok/hook").notify("finance", "数" * 10_000)
    assert json.loads(upstream.requests[-1].body) == {"text": "数" * TEXT_LENGTH_MAX}


async def test_no_ssrf_form_works_as_a_webhook(tmp_path: Path):
    with connects() as seen:
        for url in ssrf_urls():
            assert not await notifier(tmp_path, url, networks=()).notify("finance", "x"), url
    assert seen == []
