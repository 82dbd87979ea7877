package memoryos.skills_test["refund.create"]

import data.memoryos.main
import data.memoryos.testing

call := testing.with_changes({"action": {"skill": "refund.create", "effect_class": "keyed"}})

decide(changes) := d if d := main.decision with input as object.union(call, changes)

codes(changes) := {r.code | some r in decide(changes).reasons}

amount(value) := {"args": {"amount": value}}

by(roles, chain, value) := object.union(amount(value), {"subject": {"roles": roles}, "actor": {"chain": chain}})

test_within_the_limit if {
	decide(by(["agent"], [], 500)).decision == "allow"
	decide(by(["user"], [], 1000)).decision == "allow"
	decide(by(["user", "tenant-admin"], [], 5000)).decision == "allow"
	codes(amount(0.01)) == {"refund_within_limit"}
}

test_above_the_limit_a_person_decides if {
	d := decide(by(["user"], [], 1000.01))
	d.decision == "manual_review"
	d.obligations == {{"kind": "approval", "group": "finance", "quorum": 1, "expires_in_s": 900}}
	decide(by(["agent"], [], 501)).decision == "manual_review"
}

test_an_agent_has_an_agents_limit_whoever_it_works_for if {
	decide(by(["tenant-admin", "user"], ["helper"], 501)).decision == "manual_review"
}

test_invalid_amounts_are_denied if {
	every value in [0, -1, -0.01, "100", "NaN", null, true, [1], {"amount": 1}] {
		decide(amount(value)).decision == "deny"
		codes(amount(value)) == {"refund_amount_invalid"}
	}
	decide({}).decision == "deny"
}

test_huge_amounts_ask if decide(amount(1e300)).decision == "manual_review"

test_roles_without_a_limit_may_not if {
	decide(by(["reviewer"], [], 1)).decision == "deny"
}

test_an_approved_review_allows_this_call if {
	review := {"id": "rev_1", "state": "approved", "action_digest": "abc", "group": "finance", "approvals": 1}
	decide(object.union(amount(3000), {"context": {"review": review}})).decision == "allow"
	other := object.union(review, {"action_digest": "other"})
	decide(object.union(amount(3000), {"context": {"review": other}})).decision == "deny"
}

test_an_approval_in_the_arguments_is_not_one if {
	decide({"args": {"amount": 3000, "review": {"state": "approved", "approvals": 9}}}).decision == "manual_review"
}

test_listed if {
	decide({"purpose": "list"}).decision == "allow"
	decide({"purpose": "list", "subject": {"roles": ["reviewer"]}}).decision == "deny"
}
