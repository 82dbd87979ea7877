"""FAULTS A8: a method that is not listed is not allowed, and every method is listed."""

from __future__ import annotations

import importlib
import pkgutil

import memoryos.erasure.v1
import memoryos.harness.v1
import memoryos.jobs.v1
import memoryos.memoryfs.v1
import memoryos.policy.v1
import memoryos.toolgateway.v1
import pytest
from google.protobuf import descriptor_pool
from memoryos_core.tokens import ROLES
from memoryos_grpc import METHOD_RULES
from memoryos_grpc.client.channels import service_config

APIS = (
    memoryos.erasure.v1,
    memoryos.jobs.v1,
    memoryos.memoryfs.v1,
    memoryos.policy.v1,
    memoryos.toolgateway.v1,
    memoryos.harness.v1,
)
SERVICES = {"memoryfs", "tool-gateway", "policy", "harness"}


def proto_methods() -> dict[str, object]:
    """Every RPC of every proto of ours."""
    found = {}
    for api in APIS:
        for module in pkgutil.iter_modules(api.__path__):
            if not module.name.endswith("_pb2"):
                continue
            file = importlib.import_module(f"{api.__name__}.{module.name}").DESCRIPTOR
            for service in file.services_by_name.values():
                for method in service.methods:
                    found[f"/{service.full_name}/{method.name}"] = method
    return found


def test_every_method_of_every_proto_has_a_rule_and_no_rule_is_left_over():
    methods = set(proto_methods())
    assert len(methods) >= 27
    assert methods == set(METHOD_RULES)


@pytest.mark.parametrize("name", sorted(METHOD_RULES))
def test_a_rule_names_known_roles_and_services(name):
    rule = METHOD_RULES[name]
    assert rule.roles
    assert rule.roles <= ROLES
    assert rule.services is None or rule.services < SERVICES


def test_inner_methods_are_for_services_only():
    inner = {name: rule.services for name, rule in METHOD_RULES.items() if rule.services is not None}
    assert inner == {
        "/memoryos.erasure.v1.Erasure/Erase": {"memoryfs"},
        "/memoryos.erasure.v1.Erasure/FindRemains": {"memoryfs"},
        "/memoryos.policy.v1.Policy/Decide": {"tool-gateway", "memoryfs", "harness"},
        "/memoryos.policy.v1.Policy/BatchDecide": {"tool-gateway", "memoryfs", "harness"},
        "/memoryos.policy.v1.Reviews/OpenReview": {"tool-gateway"},
    }


def test_calling_a_skill_is_the_only_thing_never_retried():
    unsafe = {name for name, rule in METHOD_RULES.items() if not rule.safe}
    assert unsafe == {"/memoryos.toolgateway.v1.ToolGateway/CallSkill"}
    assert "CallSkill" not in service_config()


def test_what_may_be_retried_only_reads_or_names_itself():
    """A safe method reads, or its request carries the id that makes a second one the first."""
    by_other_means = {
        "/memoryos.policy.v1.Policy/Decide",  # no effect but its log
        "/memoryos.policy.v1.Policy/BatchDecide",
        "/memoryos.policy.v1.Reviews/OpenReview",  # its call_id
        "/memoryos.erasure.v1.Erasure/Erase",  # what is erased is erased
        "/memoryos.jobs.v1.Jobs/CancelJob",  # a job is cancelled once
        "/memoryos.toolgateway.v1.ToolGateway/CancelCall",  # so is a call
        "/memoryos.toolgateway.v1.ToolGateway/ReconcileCall",  # and it ends once
        "/memoryos.harness.v1.Tokens/ExchangeToken",  # two tokens give no more rights than one
    }
    reading = (
        "Get",
        "Search",
        "List",
        "Read",
        "Watch",
        "Stat",
        "Find",
        "Diff",
        "Lineage",
        "History",
        "Export",
        "Explain",
    )
    for name, method in proto_methods().items():
        if METHOD_RULES[name].safe and name not in by_other_means and not method.name.startswith(reading):
            assert "request_id" in method.input_type.fields_by_name, name


def test_all_names_are_in_the_descriptor_pool():
    for name in METHOD_RULES:
        descriptor_pool.Default().FindMethodByName(name[1:].replace("/", "."))
