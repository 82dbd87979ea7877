"""`mos mem`, `mos job` and `mos index` as a person and as a program use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Deployment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
BASE = "/tenants/acme/memory/semantic"


def write(deployment: Deployment, place: str, content: str, *more: str) -> str:
    return str(deployment.json("mem", "write", f"{BASE}/{place}", content, *more)["id"])


def test_an_item_is_corrected_told_and_reverted(deployment: Deployment) -> None:
    item = write(deployment, "told", "first words")
    deployment.json("mem", "write", f"{BASE}/told", "second words", "--id", item)
    assert [change["cause"] for change in deployment.json("mem", "history", item)] == ["update", "write"]
    assert "first words" in deployment.mos("mem", "history", item).stdout
    assert deployment.json("mem", "revert", f"{BASE}/told", item, "1")["content"] == "first words"
    other = write(deployment, "told", "other words of it")
    merged = deployment.json("mem", "merge", f"{BASE}/told", item, other, "--content", "both")
    assert set(merged["derived_from"]) == {item, other}
    assert "derived" in deployment.mos("mem", "lineage", merged["id"]).stdout
    pair = [write(deployment, "told", text) for text in ("a bike was ordered", "its brakes were bad")]
    written = deployment.mos("mem", "merge", f"{BASE}/told", *pair)  # the model of the deployment writes the text
    assert (written.returncode, "succeeded" in written.stdout) == (0, True)


def test_doubt_waits_for_a_person(deployment: Deployment) -> None:
    item = write(deployment, "doubt", "may like tea", "--confidence", "0.3")
    assert deployment.json("mem", "read", f"{BASE}/doubt", "tea")["hits"] == []
    assert deployment.json("mem", "promote", f"{BASE}/doubt", item, "--reason", "asked")["state"] == "active"
    assert deployment.json("mem", "dispute", f"{BASE}/doubt", item)["state"] == "candidate"


def test_what_lies_below_a_place_and_what_holds_there(deployment: Deployment) -> None:
    write(deployment, "place/a", "one")
    write(deployment, "place/b", "two")
    assert deployment.json("mem", "stat", f"{BASE}/place")["active_count"] == 2
    assert f"{BASE}/place/b" in deployment.mos("mem", "du", f"{BASE}/place").stdout
    refused = deployment.mos("mem", "settings", "set", f"{BASE}/place", "--gate", "0.9", "--role", "user")
    assert refused.returncode == 4
    set_to = deployment.json(
        "mem", "settings", "set", f"{BASE}/place", "--gate", "0.9", "--ttl", "90d", "--writer", "group:g"
    )
    assert (set_to["gate"], set_to["ttl"], set_to["writers"]) == (0.9, 90 * 86_400, ["group:g"])
    assert deployment.json("mem", "settings", "show", f"{BASE}/place/a")["effective"]["gate"] == 0.9
    denied = deployment.mos("mem", "write", f"{BASE}/place/a", "not a writer")
    assert (denied.returncode, "NOT_WRITER" in denied.stderr) == (4, True)
    deployment.json(
        "mem", "settings", "set", f"{BASE}/place", "--inherit", "writers", "--inherit", "gate", "--inherit", "ttl"
    )
    assert deployment.json("mem", "move", f"{BASE}/place/a", f"{BASE}/place/c") == {"moved_count": 1}


def test_forget_by_a_filter_asks_first(deployment: Deployment) -> None:
    for n in range(3):
        write(deployment, "sweep", f"line {n}", "--tag", "old")
    kept = write(deployment, "sweep", "kept")
    arguments = ("mem", "forget", f"{BASE}/sweep", "--filter", '{"tags": "old"}')
    assert deployment.mos(*arguments, stdin="n\n").returncode == 130
    assert deployment.json(*arguments, "--yes") == {"forgotten_count": 3}
    assert [item["id"] for item in deployment.json("mem", "list", f"{BASE}/sweep")] == [kept]


def test_snapshot_difference_and_rollback(deployment: Deployment) -> None:
    item = write(deployment, "back", "as it was")
    point = deployment.json("mem", "snapshot", f"{BASE}/back", "--title", "before")["id"]
    deployment.json("mem", "write", f"{BASE}/back", "spoilt", "--id", item)
    assert "spoilt" in deployment.mos("mem", "diff", f"{BASE}/back", point).stdout
    assert deployment.json("mem", "rollback", f"{BASE}/back", point, "--preview")["reverted_count"] == 1
    assert deployment.json("mem", "get", item)["content"] == "spoilt"
    assert deployment.json("mem", "rollback", f"{BASE}/back", point, "--yes")["reverted_count"] == 1
    assert deployment.json("mem", "get", item)["content"] == "as it was"
    assert point in deployment.mos("mem", "snapshots", f"{BASE}/back").stdout


def test_export_import_and_the_feed(deployment: Deployment, tmp_path: Path) -> None:
    item = write(deployment, "out", "客户 A\u2028 confirmed")
    assert "1 items" in deployment.mos("mem", "export", f"{BASE}/out", str(tmp_path / "out"), "--vectors").stdout
    deployment.json("mem", "write", f"{BASE}/out", "changed", "--id", item)
    done = deployment.json("mem", "import", f"{BASE}/out", str(tmp_path / "out"), "--replace")
    assert done["replaced_count"] == 1
    (tmp_path / "out" / "items.jsonl").write_text("{}\n")
    broken = deployment.mos("mem", "import", f"{BASE}/out", str(tmp_path / "out"))
    assert (broken.returncode, "not what the manifest says" in broken.stderr) == (2, True)
    watched = deployment.mos("mem", "watch", f"{BASE}/out", "--from-start", "-n", "3", "--json").stdout
    lines = watched.strip().split("\n")  # a line separator in a text ends no line
    assert [json.loads(line)["change"]["cause"] for line in lines] == ["write", "update", "import"]


def test_erasure_shows_its_receipt_and_auditors_learn_why(deployment: Deployment) -> None:
    item, kept = write(deployment, "gone", "to be erased"), write(deployment, "gone", "to be kept")
    why = deployment.json("mem", "explain", f"{BASE}/gone", item, "--for", "nobody", "--query", "erased")
    assert why[0]["verdict"] == "acl"
    job = deployment.json("mem", "purge", f"{BASE}/gone", item, "--yes")
    assert job["state"] == "succeeded"
    receipt = deployment.json("mem", "receipt", job["id"])
    assert receipt["signature"]
    other = deployment.mos("mem", "receipt", job["id"], "--keys", str(deployment.data / "keys" / "audit.pem.pub"))
    assert other.returncode == 9
    assert deployment.mos("mem", "get", item).returncode == 3
    assert deployment.mos("mem", "get", kept).returncode == 0
    assert job["id"] in deployment.mos("job", "list").stdout
    assert deployment.json("job", "show", job["id"])["kind"] == job["kind"]


def test_the_state_of_the_index(deployment: Deployment) -> None:
    assert deployment.json("index", "status")["backend"] == "pgvector"
    assert deployment.mos("index", "status", "--role", "user").returncode == 4
