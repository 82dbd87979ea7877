"""`mos calls` against a gateway that answers from memory: what is printed, what programs get, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from memoryos.policy.v1 import policy_pb2, policy_pb2_grpc, reviews_pb2, reviews_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb
from memoryos.toolgateway.v1 import tool_gateway_pb2_grpc
from memoryos_cli.datafolder import ADDRESSES_FILE, DataFolder
from memoryos_cli.main import run

Mos = Callable[..., tuple[int, str, str]]
DECISION, REVIEW, CALL = "dec_1", "rev_1", "call_1"


class Gateway(
    tool_gateway_pb2_grpc.ToolGatewayServicer, policy_pb2_grpc.PolicyServicer, reviews_pb2_grpc.ReviewsServicer
):
    """One call, and what can be done with it."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.call = pb.Call(
            id=CALL, skill="refund.create", version="3", state=pb.CALL_STATE_PARKED, decision_id=DECISION,
            review_id=REVIEW,
        )  # fmt: skip
        self.call.actor.user = "anna"
        self.later: list[Any] = []
        """States that a watcher is told after the call as it stands."""
        self.proof = pb.CANCEL_PROOF_NOT_SENT
        self.shows_policy = True

    def GetCall(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return pb.GetCallResponse(call=self.call, full_result=b'{"rows":[1,2,3]}' * request.full_result)

    def ListCalls(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return pb.ListCallsResponse(calls=[self.call])

    def WatchCall(self, request: Any, context: Any) -> Iterator[Any]:
        yield pb.WatchCallResponse(call=self.call)
        for state in self.later:
            self.call.state = state
            self.call.dispatches = 1
            yield pb.WatchCallResponse(call=self.call)

    def CancelCall(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return pb.CancelCallResponse(call=self.call, proof=self.proof)

    def ReconcileCall(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return pb.ReconcileCallResponse(call=self.call)

    def GetDecision(self, request: Any, context: Any) -> Any:
        if not self.shows_policy:
            context.abort(grpc.StatusCode.NOT_FOUND, "no")
        found = policy_pb2.Decision(id=DECISION, effect=policy_pb2.EFFECT_MANUAL_REVIEW, risk="high")
        found.reasons.add(code="above_limit", policy="p", text="The amount is above the limit.")
        return policy_pb2.GetDecisionResponse(decision=found)

    def GetReview(self, request: Any, context: Any) -> Any:
        if not self.shows_policy:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
        review = reviews_pb2.Review(id=REVIEW, state=reviews_pb2.REVIEW_STATE_APPROVED, group="finance", quorum=1)
        review.votes.add(reviewer="otto", verdict=reviews_pb2.VERDICT_APPROVE, comment="已核对")
        return reviews_pb2.GetReviewResponse(review=review)


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
def mos(gateway: Gateway, tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> Iterator[Mos]:
    server = grpc.server(ThreadPoolExecutor(4))
    tool_gateway_pb2_grpc.add_ToolGatewayServicer_to_server(gateway, server)
    policy_pb2_grpc.add_PolicyServicer_to_server(gateway, server)
    reviews_pb2_grpc.add_ReviewsServicer_to_server(gateway, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    file = DataFolder(tmp_path).file(ADDRESSES_FILE)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"tool_gateway": address, "policy": address}))

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["calls", *arguments], {"MEMORYOS_DATA": str(tmp_path), "MOS_TOKEN": "t"})
        said = capfd.readouterr()
        return code, said.out, said.err

    yield call
    server.stop(0)


def test_a_list_asks_for_what_it_is_told_to(mos: Mos, gateway: Gateway) -> None:
    code, out, _ = mos("list", "--state", "parked", "--skill", "refund.create", "--session", "s", "--task", "t")
    assert code == 0
    assert all(text in out for text in (CALL, "parked", "refund.create", "anna"))
    request = gateway.requests[0]
    assert (request.state, request.skill, request.session_id, request.task_id) == (
        pb.CALL_STATE_PARKED, "refund.create", "s", "t",
    )  # fmt: skip
    assert json.loads(mos("list", "--json")[1])[0]["id"] == CALL
    code, out, err = mos("list", "--state", "gone")
    assert (code, out, "parked" in err) == (2, "", True)


def test_a_call_is_told_as_a_story(mos: Mos, gateway: Gateway) -> None:
    code, out, _ = mos("show", CALL)
    assert code == 0
    order = ["parked", "refund.create 3, for anna", "manual_review, high risk (dec_1)", "above the limit",
             "approved by finance, 1 of 1 (rev_1)", "otto: 已核对", "not yet", "--request-id THE-SAME",
             "mos calls cancel call_1"]  # fmt: skip
    assert sorted(order, key=out.index) == order
    gateway.shows_policy = False
    code, out, _ = mos("show", CALL)
    assert code == 0
    assert "above the limit" not in out
    assert "mos review show rev_1" in out


def test_the_whole_result_is_shown_when_asked_for(mos: Mos, gateway: Gateway) -> None:
    gateway.call.state = pb.CALL_STATE_SUCCEEDED
    gateway.call.result_json = b'{"truncated":true}'
    gateway.call.full_result_bytes = 16
    assert '{"truncated": true}' in mos("show", CALL)[1]
    assert "--full" in mos("show", CALL)[1]
    assert '{"rows": [1, 2, 3]}' in mos("show", CALL, "--full")[1]
    assert json.loads(mos("show", CALL, "--full", "--json")[1])["full_result"] == {"rows": [1, 2, 3]}


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (pb.CALL_STATE_SUCCEEDED, 0),
        (pb.CALL_STATE_FAILED, 9),
        (pb.CALL_STATE_CANCELLED, 9),
        (pb.CALL_STATE_DENIED, 4),
    ],
)
def test_a_call_is_followed_to_its_end(mos: Mos, gateway: Gateway, end: Any, code: int) -> None:
    gateway.later = [pb.CALL_STATE_DISPATCHED, pb.CALL_STATE_UNKNOWN, end]
    found, out, _ = mos("watch", CALL)
    assert found == code
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["parked", "dispatched", "unknown"]
    found, out, _ = mos("watch", CALL, "--json")
    assert found == code
    assert len(json.loads(out.splitlines()[-1])["state"]) > 0


def test_a_withdrawal_says_what_it_proves(mos: Mos, gateway: Gateway) -> None:
    code, out, _ = mos("cancel", CALL)
    assert (code, out.strip()) == (0, "call_1 was not sent, and never will be")
    assert mos("cancel", "--request-id", "mine")[0] == 0
    assert [(r.id, r.call_request_id) for r in gateway.requests] == [(CALL, ""), ("", "mine")]
    gateway.proof, gateway.call.state = pb.CANCEL_PROOF_SENT, pb.CALL_STATE_UNKNOWN
    code, out, err = mos("cancel", CALL)
    assert (code, out) == (5, "")
    assert "it was sent before: unknown" in err
    code, out, _ = mos("cancel", CALL, "--json")
    assert (code, json.loads(out)["proof"]) == (5, "sent")
    gateway.proof, gateway.call.state = pb.CANCEL_PROOF_ENDED_UNSENT, pb.CALL_STATE_DENIED
    code, out, _ = mos("cancel", CALL)
    assert (code, "it had ended before: denied" in out) == (0, True)


def test_a_doubt_is_ended_by_the_upstream_or_by_a_person(mos: Mos, gateway: Gateway) -> None:
    gateway.call.state = pb.CALL_STATE_UNKNOWN
    code, out, err = mos("reconcile", CALL)
    assert (code, out) == (9, "")
    assert "--did-not-happen" in err
    gateway.call.state = pb.CALL_STATE_SUCCEEDED
    assert mos("reconcile", CALL, "--happened", "-m", "对账单")[:2] == (0, "call_1 is succeeded: it happened\n")
    gateway.call.state, gateway.call.agent_message = pb.CALL_STATE_FAILED, "It did not."
    assert mos("reconcile", CALL, "--did-not-happen", "-m", "x")[:2] == (0, "call_1 is failed: It did not.\n")
    assert [(r.outcome, r.comment) for r in gateway.requests] == [
        (pb.RECONCILE_OUTCOME_UNSPECIFIED, ""),
        (pb.RECONCILE_OUTCOME_HAPPENED, "对账单"),
        (pb.RECONCILE_OUTCOME_DID_NOT_HAPPEN, "x"),
    ]
