"""Field rules: every broken one is named, with its place and never its value."""

from __future__ import annotations

import math

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FieldDescriptor
from memoryos.harness.v1 import sessions_pb2
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2, memoryfs_pb2_grpc
from memoryos.policy.v1 import policy_pb2
from memoryos.toolgateway.v1 import tool_gateway_pb2
from memoryos.type.v1 import field_pb2
from memoryos_grpc import METHOD_RULES, remote_error
from memoryos_grpc.validation.messages import compile_checker
from memoryos_grpc.validation.values import WELL_KNOWN
from memoryos_grpc.validation.violations import VIOLATIONS_MAX

MEM = "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"
PATH = "/tenants/acme/memory/episodic"


def broken(message) -> list[str]:
    found = []
    compile_checker(message.DESCRIPTOR)(message, found)
    return [f"{violation.field}: {violation.description}" for violation in found]


def fields(message) -> list[str]:
    return [line.partition(": ")[0] for line in broken(message)]


def write(**entry) -> memoryfs_pb2.WriteRequest:
    return memoryfs_pb2.WriteRequest(path=PATH, entries=[memoryfs_pb2.WriteEntry(**entry)], request_id="r1")


def test_a_request_in_order_passes():
    request = write(
        content="客户 A 确认了 Q3 交付计划",
        attributes_json=b'{"event_type":"confirm","n":9007199254740993}',
        tags=["Q3", "客户:A", "ไทยที่"],
        user="user_123",
        readers=["group:sales-east", "agent:u42/helper", "tenant:*"],
        sensitivity=9,
        trust=item_pb2.TRUST_TRUSTED,
        confidence=0.92,
        ttl={"seconds": 60},
        valid_from={"seconds": 0},
        embedding={"model": "m", "values": [0.1, -0.2]},
    )
    assert broken(request) == []


def test_required():
    assert broken(memoryfs_pb2.WriteRequest()) == [
        "path: is required",
        "entries: is required",
        "request_id: is required",
    ]
    assert fields(policy_pb2.DecideRequest()) == ["purpose", "action"]
    decide = policy_pb2.DecideRequest(purpose=1, action={"skill": "s", "version": "1", "risk": "low"})
    assert fields(decide) == ["action.definition_digest", "action.effect_class"]
    assert fields(sessions_pb2.AppendMessagesRequest(messages=[{}])) == ["session_id", "messages[0].role", "request_id"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.0001, -0.0001])
def test_numbers_outside_their_range(value):
    assert broken(write(content="x", confidence=value)) == ["entries[0].confidence: must be from 0 to 1"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_floats_without_a_range_are_finite(value):
    request = write(content="x", embedding={"model": "m", "values": [0.5, value]})
    assert broken(request) == ["entries[0].embedding.values[1]: must be a finite number"]


@pytest.mark.parametrize(("value", "ok"), [(0, True), (200, True), (-1, False), (201, False), (2**31 - 1, False)])
def test_integers(value, ok):
    assert (broken(memoryfs_pb2.ReadRequest(path=PATH, top_k=value)) == []) is ok


def test_largest_integer_is_exact():
    call = {"skill": "s", "arguments_json": b"{}", "request_id": "r"}
    assert broken(tool_gateway_pb2.CallSkillRequest(**call, lease_epoch=2**53 - 1)) == []
    assert fields(tool_gateway_pb2.CallSkillRequest(**call, lease_epoch=2**53)) == ["lease_epoch"]
    assert fields(tool_gateway_pb2.CallSkillRequest(**call, lease_epoch=-1)) == ["lease_epoch"]


def test_unknown_enum_numbers():
    assert broken(write(content="x", trust=99)) == ["entries[0].trust: is no value of Trust"]
    assert broken(write(content="x", trust=-1)) == ["entries[0].trust: is no value of Trust"]
    assert broken(memoryfs_pb2.ListRequest(path=PATH, state=0)) == []
    assert fields(memoryfs_pb2.ListRequest(path=PATH, state=5)) == ["state"]


def test_sizes_are_bytes():
    assert fields(write(content="界" * 33_333)) == []
    assert broken(write(content="界" * 33_334)) == ["entries[0].content: has more than 100000 bytes"]
    assert fields(write(content="x", tags=["t"] * 33)) == ["entries[0].tags"]
    assert fields(write(content="x", tags=["ok", "t" * 129])) == ["entries[0].tags[1]"]
    assert fields(memoryfs_pb2.WriteRequest(path=PATH, request_id="r", entries=[{}] * 501)) == ["entries"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "tenants/acme/memory/episodic",
        "/tenants/acme/memory/episodic/",
        "/tenants/acme/memory/episodic/../x",
        "/tenants/acme/memory/episodic//x",
        "/tenants/acme/memory/other",
        "/tenants/acme/memory/episodic/a\u200bb",
        "/tenants/acme/memory/episodic/e\u0301",
        "/tenants/acme/memory/episodic/" + "x" * 256,
    ],
)
def test_paths(path):
    assert fields(memoryfs_pb2.ReadRequest(path=path)) == ["path"]


@pytest.mark.parametrize(
    "item", ["", "mem_", "mem_x", "ses_01ARZ3NDEKTSV4RRFFQ69G5FAV", MEM.lower(), MEM + "\n", " " + MEM, MEM + "0", "%"]
)
def test_ids(item):
    assert fields(memoryfs_pb2.GetRequest(id=item)) == ["id"]
    assert fields(lifecycle_pb2.ForgetRequest(path=PATH, ids=[MEM, item], request_id="r")) == ["ids[1]"]


@pytest.mark.parametrize(
    "label",
    [
        "a b",
        "a\n",
        "\ta",
        "a\0",
        "a\u200b",
        "a\u202eb",
        "tag\u3164",
        "😀",
        "a'b",
        'a"b',
        "a%b",
        "a\\b",
        "a\u2028b",
        " ",
    ],
)
def test_labels_that_are_none(label):
    assert fields(write(content="x", user=label)) == ["entries[0].user"]


@pytest.mark.parametrize("label", ["user_123", "WR-1024", "a.b:c@d/e+f", "客户", "ไทย", "हिन्दी", "ß", "0"])
def test_labels(label):
    assert broken(write(content="x", user=label)) == []


@pytest.mark.parametrize("text", [" ", "\n\t ", "\u200b", "\ufeff", "\u2060\u200d", "\u3164", "\u00a0\u3000", "\ufe0f"])
def test_text_without_anything_to_see(text):
    assert broken(write(content=text)) == ["entries[0].content: has no visible character"]
    assert broken(write(content=text * 70 + "x")) == []


@pytest.mark.parametrize("text", ["a\0b", "\0"])
def test_nul_is_refused_in_every_string(text):
    assert fields(write(content=text)) == ["entries[0].content"]
    assert fields(write(content="x", if_match=text)) == ["entries[0].if_match"]
    assert fields(memoryfs_pb2.ReadRequest(path=PATH, query=text)) == ["query"]
    assert fields(write(content="x", source={"message_ids": ["m", text]})) == ["entries[0].source.message_ids[1]"]


@pytest.mark.parametrize("name", ["user:", "u42", "tenant:acme", "admin:u", "agent:u42", "user:a/b", "user: ", "*"])
def test_principals(name):
    assert fields(write(content="x", readers=[name])) == ["entries[0].readers[0]"]


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b"1",
        b"null",
        b'"x"',
        b"{",
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'{"a":1,"a":2}',
        b'{"p":1,"\\u0070":2}',
        b'{"a":"\\ud800"}',
        b"\xff",
        b"{}x",
        b'{"a":' + b"[" * 200 + b"]" * 200 + b"}",
    ],
)
def test_json_objects(raw):
    request = tool_gateway_pb2.CallSkillRequest(skill="s", arguments_json=raw, request_id="r")
    assert fields(request) == ["arguments_json"]


def test_times():
    assert fields(write(content="x", valid_from={"seconds": 253_402_300_800})) == ["entries[0].valid_from"]
    assert fields(write(content="x", valid_from={"nanos": -1})) == ["entries[0].valid_from"]
    assert fields(write(content="x", valid_from={"nanos": 10**9})) == ["entries[0].valid_from"]
    assert fields(write(content="x", ttl={"seconds": -1})) == ["entries[0].ttl"]
    assert fields(write(content="x", ttl={"nanos": 10**9})) == ["entries[0].ttl"]


@pytest.mark.parametrize(
    ("bounds", "ok"),
    [
        ({"start": {"seconds": 1}, "end": {"seconds": 1, "nanos": 1}}, True),
        ({"start": {"seconds": 1}, "end": {"seconds": 1}}, False),
        ({"start": {"seconds": 2}, "end": {"seconds": 1}}, False),
        ({"start": {"seconds": 2}}, True),
        ({"end": {"seconds": 0}}, True),
        ({}, True),
    ],
)
def test_ranges_of_time(bounds, ok):
    request = memoryfs_pb2.ReadRequest(path=PATH, filter={"valid_from": bounds})
    assert fields(request) == ([] if ok else ["filter.valid_from.start"])


def test_masks_are_bounded():
    assert fields(write(content="x", update_mask={"paths": ["content"] * 65})) == ["entries[0].update_mask"]
    assert fields(write(content="x", update_mask={"paths": [""]})) == ["entries[0].update_mask"]


def test_all_violations_come_at_once_up_to_a_cap():
    entry = {"content": " ", "tags": ["a b"], "confidence": 2, "trust": 99, "attributes_json": b"[]"}
    assert len(broken(write(**entry))) == 5
    many = memoryfs_pb2.WriteRequest(path="x", request_id="r", entries=[entry] * 500)
    assert VIOLATIONS_MAX <= len(broken(many)) < VIOLATIONS_MAX + 5


async def refusal(site, server, call):
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(server))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(stub)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return refused.value, remote_error(refused.value)


async def test_at_the_wire(site, memory_server, memoryfs, bearer):
    entry = {"content": " ", "tags": ["geheim wort"], "confidence": 2, "trust": 99}
    many = memoryfs_pb2.WriteRequest(path=PATH, request_id="r", entries=[entry] * 100)
    raw, error = await refusal(site, memory_server, lambda stub: stub.Write(many, metadata=bearer))
    assert error.reason == "INVALID_FIELD"
    assert len(error.violations) == VIOLATIONS_MAX
    assert error.violations[0].field == "entries[0].content"
    assert "geheim" not in repr(raw) + str(raw.trailing_metadata())
    assert memoryfs.requests == []


async def test_a_bad_path_has_its_own_reason(site, memory_server, bearer):
    read = memoryfs_pb2.ReadRequest(path="/tenants/acme/memory/episodic/..")
    _, error = await refusal(site, memory_server, lambda stub: stub.Read(read, metadata=bearer))
    assert error.reason == "PATH_INVALID"
    read.top_k = 500
    _, error = await refusal(site, memory_server, lambda stub: stub.Read(read, metadata=bearer))
    assert (error.reason, len(error.violations)) == ("INVALID_FIELD", 2)


def request_types():
    for name in METHOD_RULES:
        yield descriptor_pool.Default().FindMethodByName(name[1:].replace("/", ".")).input_type


def reachable(message, seen):
    if message.full_name not in seen and message.full_name not in WELL_KNOWN:
        seen[message.full_name] = message
        for field in message.fields:
            if field.message_type is not None:
                reachable(field.message_type, seen)
    return seen


def test_everything_that_a_request_can_hold_has_a_limit():
    """I12: strings and lists without a bound do not exist in requests, and every type compiles."""
    seen = {}
    for message in request_types():
        compile_checker(message)
        reachable(message, seen)
    assert len(seen) > 30
    for message in seen.values():
        for field in message.fields:
            rules = field.GetOptions().Extensions[field_pb2.field]
            if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
                assert rules.data_class != field_pb2.DATA_CLASS_UNSPECIFIED, field.full_name
                assert rules.max_bytes or rules.format == field_pb2.FORMAT_ID, field.full_name
            if field.is_repeated:
                assert rules.max_items, field.full_name
            if rules.format == field_pb2.FORMAT_ID:
                assert rules.id_prefix, field.full_name


@pytest.mark.parametrize("label", ["map", "foreign"])
def test_shapes_without_rules_do_not_compile(label):
    file = descriptor_pb2.FileDescriptorProto(name=f"{label}.proto", package="t", syntax="proto3")
    message = file.message_type.add(name="M")
    field = message.field.add(name="f", number=1, type=11, label=1)
    if label == "map":
        entry = message.nested_type.add(name="FEntry", options={"map_entry": True})
        entry.field.add(name="key", number=1, type=9, label=1)
        entry.field.add(name="value", number=2, type=9, label=1)
        field.type_name, field.label = ".t.M.FEntry", 3
    else:
        file.dependency.append("google/protobuf/struct.proto")
        field.type_name = ".google.protobuf.Struct"
    pool = descriptor_pool.DescriptorPool()
    if label == "foreign":
        from google.protobuf import struct_pb2

        pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    with pytest.raises(TypeError):
        compile_checker(pool.FindMessageTypeByName("t.M"))


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ([0.0, -1.5, 1e-45], ""),
        ([3.4e38, -3.4e38], ""),
        ([0.0, float("nan")], "values[1]"),
        ([float("inf"), 1.0], "values[0]"),
        ([1.0, 1.0, float("-inf")], "values[2]"),
    ],
)
def test_every_number_of_a_vector_is_finite(values, field):
    assert fields(memoryfs_pb2.Embedding(model="m", values=values)) == [field] * bool(field)
