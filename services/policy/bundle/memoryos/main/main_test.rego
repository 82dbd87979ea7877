package memoryos.main_test

import data.memoryos.main
import data.memoryos.testing

skill := {
	"visible": true,
	"allow": {{"code": "yes", "text": "Yes."}},
	"deny": set(),
	"manual_review": set(),
}

ask := {
	"code": "ask",
	"text": "Ask.",
	"approval": {"group": "finance", "quorum": 1, "expires_in_s": 900},
}

call := testing.call

listing := object.remove(
	object.union(call, {"purpose": "list", "context": object.remove(call.context, ["session_facts"])}),
	["args", "resource", "action_digest"],
)

codes(d) := {r.code | some r in d.reasons}

decide(rules, question) := d if {
	d := main.decision with input as question with data.memoryos.skills as {"x.y": rules}
}

approved(fields) := object.union(call, {"context": object.union(testing.call.context, {"review": object.union(
	{"id": "rev_1", "state": "approved", "action_digest": "abc", "group": "finance", "approvals": 1},
	fields,
)})})

test_allow if decide(skill, call).decision == "allow"

test_unknown_skill_is_denied if {
	d := decide(skill, object.union(call, {"action": {"skill": "nope"}}))
	d.decision == "deny"
	codes(d) == {"no_rule"}
}

test_hostile_skill_names_are_unknown if {
	every name in ["", "x", "x/../../policies/p", "a?explain=full#", "x.y\u0000", "main", "memoryos.main"] {
		decide(skill, object.union(call, {"action": {"skill": name}})).decision == "deny"
	}
}

test_skill_name_of_another_type_is_denied if {
	every name in [null, 1, true, ["x.y"], {"x.y": 1}] {
		decide(skill, object.union(call, {"action": {"skill": name}})).decision == "deny"
	}
}

test_empty_input_is_denied if {
	d := main.decision with input as {}
	d.decision == "deny"
}

test_rules_that_say_nothing_are_a_deny if {
	decide({"visible": true, "allow": set()}, call).decision == "deny"
}

test_invisible_skill_is_denied if {
	decide(object.union(skill, {"visible": false}), call).decision == "deny"
	decide(object.remove(skill, ["visible"]), call).decision == "deny"
}

test_deny_wins_over_review_and_allow if {
	d := decide(
		object.union(skill, {"deny": {{"code": "no", "text": "No."}}, "manual_review": {ask}}),
		call,
	)
	d.decision == "deny"
	codes(d) == {"no"}
	d.obligations == []
}

test_review_wins_over_allow if {
	d := decide(object.union(skill, {"manual_review": {ask}}), call)
	d.decision == "manual_review"
	d.obligations == {{"kind": "approval", "group": "finance", "quorum": 1, "expires_in_s": 900}}
}

test_each_missing_part_is_denied if {
	every field in ["version", "purpose", "subject", "actor", "action", "resource", "args", "action_digest", "context"] {
		decide(skill, object.remove(call, [field])).decision == "deny"
	}
}

test_another_input_version_is_denied if {
	every version in [0, 2, "1", null] {
		d := decide(skill, object.union(call, {"version": version}))
		"input_version" in codes(d)
	}
}

test_unknown_purpose_is_denied if {
	decide(skill, object.union(call, {"purpose": "other"})).decision == "deny"
}

test_malformed_call_says_so if {
	"input_malformed" in codes(decide(skill, object.union(call, {"args": []})))
}

test_unknown_effect_class_is_denied if {
	decide(skill, object.union(call, {"action": {"effect_class": "unspecified"}})).decision == "deny"
}

test_subject_without_a_role_is_denied if {
	every roles in [[], ["reviewer"], ["auditor", "operator"], ["USER"], null] {
		d := decide(skill, object.union(call, {"subject": {"roles": roles}}))
		"subject_unknown" in codes(d)
	}
}

test_deep_chain_is_denied if {
	d := decide(skill, object.union(call, {"actor": {"chain": [sprintf("a%d", [i]) | some i in numbers.range(1, 9)]}}))
	"chain_too_deep" in codes(d)
	decide(skill, object.remove(call, ["actor"])).decision == "deny"
}

test_listing_asks_visible_only if {
	decide(skill, listing).decision == "allow"
	decide(object.union(skill, {"visible": false}), listing).decision == "deny"
	decide(object.union(skill, {"manual_review": {ask}}), listing).decision == "allow"
}

test_listing_without_a_role_is_denied if {
	decide(skill, object.union(listing, {"subject": {"roles": []}})).decision == "deny"
}

test_approved_review_allows if {
	d := decide(object.union(skill, {"manual_review": {ask}}), approved({}))
	d.decision == "allow"
	"review_approved" in codes(d)
	d.obligations == set()
}

test_deny_after_approval_wins if {
	d := decide(
		object.union(skill, {"deny": {{"code": "no", "text": "No."}}, "manual_review": {ask}}),
		approved({}),
	)
	d.decision == "deny"
}

test_approval_of_another_action_is_denied if {
	d := decide(object.union(skill, {"manual_review": {ask}}), approved({"action_digest": "other"}))
	d.decision == "deny"
	"review_other_action" in codes(d)
}

test_approval_by_another_group_or_too_few_asks_again if {
	decide(object.union(skill, {"manual_review": {ask}}), approved({"group": "sales"})).decision == "manual_review"
	decide(object.union(skill, {"manual_review": {ask}}), approved({"approvals": 0})).decision == "manual_review"
}

test_denied_and_expired_reviews_are_a_deny if {
	every state in ["denied", "expired"] {
		d := decide(object.union(skill, {"manual_review": {ask}}), approved({"state": state}))
		d.decision == "deny"
		sprintf("review_%s", [state]) in codes(d)
	}
}

test_pending_and_unknown_review_states_wait if {
	every state in ["pending", "APPROVED", "", null] {
		decide(object.union(skill, {"manual_review": {ask}}), approved({"state": state})).decision == "manual_review"
	}
}

test_agent_message_names_no_rule if {
	every question in [call, object.union(call, {"action": {"skill": "nope"}})] {
		d := decide(object.union(skill, {"deny": {{"code": "no_secret_rule", "text": "Secret."}}}), question)
		d.agent_message == "This action is not permitted."
	}
}

test_build_time_is_carried if {
	d := main.decision with input as call
		with data.memoryos.skills as {"x.y": skill}
		with data.system.build as {"confirm_time": "2026-01-01T00:00:00Z"}
	d.confirm_time == "2026-01-01T00:00:00Z"
}

test_disabled_users_are_denied if {
	d := main.decision with input as call
		with data.memoryos.skills as {"x.y": skill}
		with data.memoryos.organisation.disabled_users as ["u1"]
	codes(d) == {"subject_disabled"}
}

test_a_new_skill_only_reads if {
	new := {"action": {"opened": false}}
	codes(decide(skill, object.union(call, new))) == {"skill_not_opened"}
	decide(skill, object.union(call, {"action": {"opened": false, "effect_class": "read"}})).decision == "allow"
	decide(skill, object.union(listing, new)).decision == "deny"
}

test_one_account_for_all_is_denied if {
	codes(decide(skill, object.union(call, {"action": {"identity": "service"}}))) == {"service_account_not_allowed"}
}

removing := {
	"action": {"destructive": true},
	"context": {"session_facts": {"untrusted_content": true}},
}

test_what_only_a_general_rule_asks_is_looked_at_by_default if {
	d := decide(skill, object.union(call, removing))
	d.decision == "manual_review"
	{r.policy | some r in d.reasons} == {"memoryos.library.session"}
	d.obligations == {{"kind": "approval", "group": "reviewers", "quorum": 1, "expires_in_s": 900}}
}

test_one_review_for_what_the_skill_and_a_general_rule_ask if {
	d := decide(object.union(skill, {"manual_review": {ask}}), object.union(call, removing))
	codes(d) == {"ask", "untrusted_destructive"}
	d.obligations == {{"kind": "approval", "group": "finance", "quorum": 1, "expires_in_s": 900}}
	decide(object.union(skill, {"manual_review": {ask}}), object.union(approved({}), removing)).decision == "allow"
}

test_the_strictest_of_one_group if {
	more := {"code": "more", "text": "More.", "approval": {"group": "finance", "quorum": 2, "expires_in_s": 60}}
	d := decide(object.union(skill, {"manual_review": {ask, more}}), call)
	d.obligations == {{"kind": "approval", "group": "finance", "quorum": 2, "expires_in_s": 60}}
	decide(object.union(skill, {"manual_review": {ask, more}}), approved({"approvals": 1})).decision == "manual_review"
}

test_different_groups_for_one_call_are_a_deny if {
	other := {"code": "other", "text": "Other.", "approval": {"group": "legal", "quorum": 1, "expires_in_s": 60}}
	d := decide(object.union(skill, {"manual_review": {ask, other}}), call)
	codes(d) == {"review_groups_differ"}
}

test_personal_data_does_not_leave if {
	out := {"action": {"egress": "external"}, "context": {"session_facts": {"personal_data": true}}}
	codes(decide(skill, object.union(call, out))) == {"personal_data_leaves"}
}

limit := {"kind": "rate_limit", "key": "x.y:u1", "limit": 3, "window_s": 60, "cost": 1}

test_obligations_of_the_skill_go_with_allow_and_review_and_with_nothing_else if {
	obliging := object.union(skill, {"obligations": {limit}})
	decide(obliging, call).obligations == {limit}
	asking := object.union(obliging, {"manual_review": {ask}})
	decide(asking, call).obligations == {limit, object.union({"kind": "approval"}, ask.approval)}
	decide(asking, approved({})).obligations == {limit}
	decide(obliging, listing).obligations == set()
	decide(object.union(obliging, {"deny": {{"code": "no", "text": "No."}}}), call).obligations == []
}

test_risk_is_what_the_skill_declares_and_else_the_worst if {
	decide(skill, call).risk == "low"
	decide(skill, object.union(call, {"action": {"risk": "high"}})).risk == "high"
	decide(skill, object.union(call, {"action": {"risk": "none"}})).risk == "critical"
	main.decision.risk == "critical" with input as {}
}

test_a_probe_is_denied_with_the_time_of_the_bundle if {
	d := main.decision with input as {"version": 1, "purpose": "probe"}
		with data.system.build.confirm_time as "2026-01-01T00:00:00Z"
	d.decision == "deny"
	d.confirm_time == "2026-01-01T00:00:00Z"
	codes(d) == {"no_rule"}
}

test_rules_may_see_another_risk if {
	decide(object.union(skill, {"risk": "high"}), call).risk == "high"
	decide(object.union(skill, {"risk": "none"}), call).risk == "low"
}
