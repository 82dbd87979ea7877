"""What the policy service holds of people: decisions with their sealed inputs, reviews, votes."""

from __future__ import annotations

from typing import Final

from memoryos_service.erasure import Holdings, delete_up_to

_OWN: Final = "SELECT r.review_id FROM policy.reviews AS r WHERE r.tenant = t.tenant AND r.user_name = %(user)s"

HOLDINGS: Final = Holdings(
    service="policy",
    schema="policy",
    of_user={
        "policy.review_votes": delete_up_to(
            "policy.review_votes", f"(t.reviewer = %(user)s OR t.review_id IN ({_OWN}))"
        ),
        "policy.reviews": delete_up_to("policy.reviews", "t.user_name = %(user)s"),
        "policy.decisions": delete_up_to("policy.decisions", "t.user_name = %(user)s"),
    },
    expiring={"opa.memory": "the policy engine keeps no input; its own log is off"},
)
"""Inputs name items by no id: of items there is nothing to find."""
