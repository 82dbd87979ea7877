"""Agents as files: versions, prompts, releases, and what a wrong state does."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from memoryos.harness.v1 import agents_pb2, agents_pb2_grpc, tasks_pb2
from memoryos_core.tokens import Identity
from memoryos_harness.adapters import agent_files
from memoryos_harness.adapters.agent_files import AgentFileInvalid, AgentFiles
from memoryos_harness.agent_schema import releases_schema_text
from memoryos_harness.domain.releases import AgentReleases, Release, label_for, place_of, released, taken_back
from memoryos_harness.errors import AgentNotFound

from .world import eventually


def who(user: str = "u1", *groups: str, tenant: str = "acme") -> Identity:
    return Identity(tenant=tenant, user=user, roles=frozenset({"user"}), groups=frozenset(groups))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    agents = tmp_path / "agents"
    write(agents, "helper.yaml", {"name": "helper", "instructions": "one"})
    return agents


@pytest.fixture(autouse=True)
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_files, "LOOK_S", 0.0)


def write(folder: Path, name: str, document: object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document, allow_unicode=True))


def release(folder: Path, *releases: dict, name: str = "helper") -> None:
    write(folder, "releases.yaml", {"agents": {name: {"releases": list(releases)}}})


def tool(*arguments: str) -> tuple[int, dict]:
    done = subprocess.run(
        [sys.executable, "-m", "memoryos_harness.agent_tool", *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout)


def test_a_version_is_given_to_a_share_and_to_groups(folder) -> None:
    write(folder, "helper/v2.yaml", {"name": "helper", "instructions": "two"})
    release(folder, {"label": "v2", "percent": 10, "groups": ["sales"]})
    files = AgentFiles.load(folder)
    users = [f"u{n}" for n in range(2000)]
    got = [user for user in users if files.find("helper", who(user)).label == "v2"]
    assert 130 < len(got) < 270
    assert all(place_of("acme", user, "helper") < 10 for user in got)
    assert files.find("helper", who("u0", "sales")).agent.instructions == "two"
    assert {files.find("helper", who(user)).agent.instructions for user in set(users) - set(got)} == {"one"}
    versions = files.versions("helper")
    assert [(r.label, r.percent) for r, _ in versions] == [("v2", 10), ("", 90)]
    assert len({digest for _, digest in versions}) == 2


@given(st.integers(0, 100), st.integers(0, 100), st.text(min_size=1, max_size=20))
def test_a_larger_share_only_adds_users(small, large, user) -> None:
    small, large = sorted((small, large))
    one, two = [(Release(label="v2", percent=share),) for share in (small, large)]
    if label_for(one, who(user), "a"):
        assert label_for(two, who(user), "a") == "v2"


def test_back_is_what_was_before() -> None:
    first = released(AgentReleases(), "v2", percent=10, groups=["sales"])
    all_of_it = released(first, "v2", percent=100, groups=[])
    assert [(r.label, r.percent, r.groups) for r in all_of_it.releases] == [("v2", 100, ())]
    assert taken_back(all_of_it).releases == first.releases
    assert taken_back(taken_back(all_of_it)).releases == all_of_it.releases
    with pytest.raises(ValueError, match="100 %"):
        released(released(AgentReleases(), "v2", percent=60, groups=[]), "v3", percent=60, groups=[])


def test_changes_count_and_a_wrong_state_leaves_the_last_good_one(folder) -> None:
    files = AgentFiles.load(folder)
    write(folder, "helper.yaml", {"name": "helper", "instructions": "changed"})
    write(folder, "other.yaml", {"name": "other", "instructions": "new"})
    assert files.find("helper", who()).agent.instructions == "changed"
    assert [known.agent.name for known in files.known(who())] == ["helper", "other"]
    write(folder, "helper.yaml", "name: [")
    assert files.find("helper", who()).agent.instructions == "changed"
    assert "helper.yaml" in files.fault
    write(folder, "helper.yaml", {"name": "helper", "instructions": "mended"})
    assert (files.find("helper", who()).agent.instructions, files.fault) == ("mended", "")
    (folder / "other.yaml").unlink()
    with pytest.raises(AgentNotFound):
        files.find("other", who())


def test_a_prompt_is_a_file_of_the_folder(folder) -> None:
    write(folder, "prompts/helper.md", "你是助手。\nYou help.\n")
    write(folder, "helper.yaml", {"name": "helper", "instructions_file": "prompts/helper.md"})
    files = AgentFiles.load(folder)
    assert files.find("helper", who()).agent.instructions == "你是助手。\nYou help.\n"
    before = files.find("helper", who()).agent.version
    write(folder, "prompts/helper.md", "Another.")
    assert files.find("helper", who()).agent.version != before


@pytest.mark.parametrize(
    "name", ["../secret.md", "/etc/hostname", "link.md", "dir/link/secret.md", "", "gone.md", 7, "dir"]
)
def test_a_prompt_leads_out_of_nothing(folder, tmp_path, name) -> None:
    write(tmp_path, "secret.md", "CANARY")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "dir").mkdir()
    (folder / "dir" / "link").symlink_to(tmp_path)
    write(folder, "helper.yaml", {"name": "helper", "instructions_file": name})
    with pytest.raises(AgentFileInvalid) as refused:
        AgentFiles.load(folder)
    assert "CANARY" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("prompts/p.md", "x" * 40_000),
        ("helper/v2.yaml", {"name": "other", "instructions": "i"}),
        ("nobody/v2.yaml", {"name": "nobody", "instructions": "i"}),
        ("releases.yaml", {"agents": {"helper": {"releases": [{"label": "v9", "percent": 10}]}}}),
        ("releases.yaml", {"agents": {"helper": {"releases": [{"label": "", "percent": 110}]}}}),
        ("releases.yaml", {"agents": {"helper": {"releases": [{"label": ""}, {"label": ""}]}}}),
        ("releases.yaml", {"agents": {"gone": {"releases": [{"label": "v1", "percent": 1}]}}}),
        ("releases.yaml", {"agent": {}}),
        ("second.yaml", {"name": "helper", "instructions": "i"}),
        ("both.yaml", {"name": "both", "instructions": "i", "instructions_file": "prompts/p.md"}),
    ],
)
def test_a_wrong_state_is_refused(folder, name, document) -> None:
    write(folder, name, document)
    if name == "prompts/p.md":
        write(folder, "helper.yaml", {"name": "helper", "instructions_file": name})
    with pytest.raises(AgentFileInvalid):
        AgentFiles.load(folder)


def test_release_and_back_by_the_tool(folder) -> None:
    write(folder, "helper/v2.yaml", {"name": "helper", "instructions": "two"})
    files = AgentFiles.load(folder)
    assert tool("release", str(folder), "helper", "v2", "--percent=10", "--group=sales")[0] == 0
    assert files.find("helper", who("u0", "sales")).label == "v2"
    assert tool("release", str(folder), "helper", "v2", "--percent=100")[0] == 0
    assert {files.find("helper", who(f"u{n}")).label for n in range(50)} == {"v2"}
    code, found = tool("back", str(folder), "helper")
    assert (code, [r["percent"] for r in found["releases"]]) == (0, [10])
    for wrong in (("release", "helper", "v9"), ("release", "gone", "v2"), ("back", "gone")):
        code, found = tool(wrong[0], str(folder), *wrong[1:], *(["--percent=5"] if wrong[0] == "release" else []))
        assert code == 1
        assert "error" in found
    assert not [path for path in folder.iterdir() if path.name.endswith(".part")]


def test_releases_made_at_once_are_all_kept(folder) -> None:
    names = [f"agent{n}" for n in range(6)]
    for name in names:
        write(folder, f"{name}.yaml", {"name": name, "instructions": "one"})
        write(folder, f"{name}/v2.yaml", {"name": name, "instructions": "two"})
    with ThreadPoolExecutor(len(names)) as pool:
        done = list(pool.map(lambda name: tool("release", str(folder), name, "v2", "--percent", "100"), names))
    assert [code for code, _ in done] == [0] * len(names)
    files = AgentFiles.load(folder)
    assert [files.find(name, who("u1")).label for name in names] == ["v2"] * len(names)
    assert not list(folder.glob(".*"))


def test_lint_says_what_is_wrong_and_where(folder, tmp_path) -> None:
    write(tmp_path, "skills/mes.takt.yaml", {"name": "mes.takt"})
    write(
        folder,
        "helper.yaml",
        "name: helper\ninstructions: |\n  Hi\u202e there\nskills:\n  - mes.takt\n  - mes.gone\n"
        "agents: [nobody, helper]\noutput_schema: {type: objekt}\n",
    )
    write(folder, "far.yaml", {"name": "far", "instructions": "i", "output_schema": {"$ref": "http://x.test/s"}})
    write(folder, "broken.yaml", "name: broken\ninstructions: [1]\n")
    code, found = tool("lint", str(folder), "--skills", str(tmp_path / "skills"))
    assert code == 1
    by_rule = {(Path(r["file"]).name, r["rule"], r["line"]) for r in found["remarks"]}
    assert {
        ("helper.yaml", "skill", 6), ("helper.yaml", "hidden", 2), ("helper.yaml", "agent", 7),
        ("helper.yaml", "schema", 8), ("helper.yaml", "cycle", 7), ("broken.yaml", "file", 2),
    } <= by_rule  # fmt: skip
    assert ("far.yaml", "schema") in {(name, rule) for name, rule, _ in by_rule}


def test_the_published_schema_of_releases_is_the_one_that_is_enforced() -> None:
    published = Path(__file__).parents[1] / "schemas" / "releases.schema.json"
    assert published.read_text() == releases_schema_text()


async def test_a_task_is_pinned_to_the_version_of_its_user(world) -> None:
    agents = world.folder / "agents"
    write(agents, "plain/v2.yaml", {"name": "plain", "instructions": "You answer at length."})
    release(agents, {"label": "v2", "groups": ["sales"]}, name="plain")
    seller, other = world.client("s1", groups=frozenset({"sales"})), world.client("u42")

    async def released_to_seller() -> bool:
        return (await seller.submit("hello", "plain")).agent_label == "v2"

    await eventually(released_to_seller)
    ours, theirs = await seller.submit("hello", "plain"), await other.submit("hello", "plain")
    assert (ours.agent_label, theirs.agent_label) == ("v2", "")
    assert ours.agent_version != theirs.agent_version
    write(agents, "plain/v2.yaml", {"name": "plain", "instructions": "Changed under way."})
    async with world.worker():
        assert (await seller.ended(ours.id)).state == tasks_pb2.TASK_STATE_SUCCEEDED
    said = [request["messages"][0]["content"] for request in world.model.requests]
    assert any(text.startswith("You answer at length.") for text in said)
    stub = agents_pb2_grpc.AgentsStub(world.channels[0])
    got = (await stub.GetAgent(agents_pb2.GetAgentRequest(name="plain"), metadata=seller.metadata)).agent
    assert (got.label, [(r.label, list(r.groups)) for r in got.releases]) == ("v2", [("v2", ["sales"]), ("", [])])
    assert json.loads(got.definition_json)["name"] == "plain"
    listed = await stub.ListAgents(agents_pb2.ListAgentsRequest(), metadata=other.metadata)
    assert {agent.name: agent.label for agent in listed.agents}["plain"] == ""
    assert not any(agent.definition_json for agent in listed.agents)
