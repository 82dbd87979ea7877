package memoryos.skills_test["group.notify"]

import data.memoryos.main
import data.memoryos.testing

told(text) := testing.with_changes({
	"action": {
		"skill": "group.notify", "effect_class": "non_idempotent", "egress": "internal", "identity": "service",
	},
	"args": {"line": "A", "text": text},
})

decide(text, changes) := d if d := main.decision with input as object.union(told(text), changes)

codes(text, changes) := {r.code | some r in decide(text, changes).reasons}

test_the_group_is_told_and_each_message_counts if {
	decision := decide("A 线今晚 22:00 停机检修", {})
	decision.decision == "allow"
	{o.key | some o in decision.obligations} == {"group.notify:messages:tenant"}
}

test_no_link_leads_elsewhere if {
	codes("see https://evil.test/x", {}) == {"group_link"}
	codes("see http://example.com@evil.test/x", {}) == {"group_link"}
	decide("see https://wiki.example.com/x", {}).decision == "allow"
}

test_without_leave_no_account_stands_for_everybody if {
	some_else := main.decision with input as told("x") with data.memoryos.organisation.service_account_skills as []
	{r.code | some r in some_else.reasons} == {"service_account_not_allowed"}
}

test_not_sent_as_something_else if {
	decide("x", {"action": {"egress": "external"}}).decision == "deny"
	decide("x", {"action": {"opened": false}}).decision == "deny"
	decide("", {}).decision == "deny"
}

test_a_rate_that_cannot_be_counted_lets_nothing_through if {
	uncounted := main.decision with input as told("x")
		with data.memoryos.limits as {"group.notify": {"rates": [{"name": "x", "per": "nobody", "limit": 1, "window_s": 1}]}}
	{r.code | some r in uncounted.reasons} == {"rate_not_countable"}
}

test_listed if decide("", {"purpose": "list"}).decision == "allow"
