import unicodedata

import pytest
from memoryos_core.paths import Kind, MemoryPath, PathInvalid


@pytest.mark.parametrize(
    "text",
    [
        "/tenants/acme/memory/episodic",
        "/tenants/acme/memory/semantic/客户/华东区",
        "/tenants/acme/memory/working/a b/100%/john_doe/ไทย",
        "/tenants/acme/memory/episodic/" + "/".join(["s"] * 20),
        "/tenants/acme/memory/episodic/" + "字" * 255,
        "/tenants/acme/memory/episodic/A",
    ],
)
def test_a_path_of_the_grammar_reads_back(text):
    assert str(MemoryPath.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "tenants/acme/memory/episodic",
        "/tenants/acme/memory",
        "/tenants/acme/memory/",
        "/tenants/acme/memory/other",
        "/tenants/acme/memory/EPISODIC",
        "/Tenants/acme/memory/episodic",
        "/tenants//memory/episodic",
        "/tenants/acme/memory/episodic/",
        "/tenants/acme/memory/episodic//x",
        "/tenants/acme/memory/episodic/.",
        "/tenants/acme/memory/episodic/../other",
        "/tenants/../memory/episodic",
        "/tenants/acme/memory/episodic/ ",
        "/tenants/acme/memory/episodic/a\x00b",
        "/tenants/acme/memory/episodic/a\nb",
        "/tenants/acme/memory/episodic/a\u200bb",
        "/tenants/acme/memory/episodic/a\u202eb",
        "/tenants/acme/memory/episodic/a\u2028b",
        "/tenants/acme/memory/episodic/\ue000",
        "/tenants/acme/memory/episodic/\ud800",
        "/tenants/acme/memory/episodic/" + unicodedata.normalize("NFD", "é"),
        "/tenants/acme/memory/episodic/" + "x" * 256,
        "/tenants/acme/memory/episodic/" + "/".join(["s"] * 21),
        "/tenants/acme/memory/episodic/" + "/".join(["字" * 100] * 4),
    ],
)
def test_a_path_outside_the_grammar_is_refused_by_name(text):
    with pytest.raises(PathInvalid) as refused:
        MemoryPath.parse(text)
    assert refused.value.violations[0].field == "path"


def test_prefixes_hold_on_segment_borders_only():
    top = MemoryPath.parse("/tenants/acme/memory/episodic/a/b")
    assert top.contains(top)
    assert top.contains(MemoryPath.parse("/tenants/acme/memory/episodic/a/b/c"))
    assert not top.contains(MemoryPath.parse("/tenants/acme/memory/episodic/a/bc"))
    assert not top.contains(MemoryPath.parse("/tenants/acme/memory/episodic/a"))
    assert not top.contains(MemoryPath.parse("/tenants/acme/memory/semantic/a/b"))
    assert not top.contains(MemoryPath.parse("/tenants/acme-corp/memory/episodic/a/b"))


def test_kind_and_tenant_are_read_from_the_path():
    path = MemoryPath.parse("/tenants/acme/memory/working/t1")
    assert (path.tenant, path.kind, path.segments) == ("acme", Kind.WORKING, ("t1",))
