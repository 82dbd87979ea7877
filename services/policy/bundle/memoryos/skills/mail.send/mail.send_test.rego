package memoryos.skills_test["mail.send"]

import data.memoryos.main
import data.memoryos.testing

mail(to) := testing.with_changes({
	"action": {
		"skill": "mail.send", "effect_class": "non_idempotent", "risk": "medium", "egress": "external",
		"identity": "none", "recipients": ["/to/*"],
	},
	"args": {"to": to, "subject": "s", "text": "t"},
})

decide(to, changes) := d if d := main.decision with input as object.union(mail(to), changes)

codes(to, changes) := {r.code | some r in decide(to, changes).reasons}

facts(changes) := {"context": {"session_facts": object.union(testing.quiet, changes)}}

test_colleagues_get_mails_and_each_counts if {
	decision := decide(["a@example.com", "b@sales.example.com"], {})
	decision.decision == "allow"
	{o.kind | some o in decision.obligations} == {"rate_limit"}
}

test_a_mail_that_leaves_waits_for_a_person if {
	decision := decide(["a@example.com", "x@elsewhere.test"], {})
	decision.decision == "manual_review"
	{o.group | some o in decision.obligations; o.kind == "approval"} == {"office"}
	codes(["a@example.com.elsewhere.test"], {}) == {"mail_leaves"}
	codes(["a@notexample.com"], {}) == {"mail_leaves"}
}

test_whoever_can_be_read_in_two_ways_gets_nothing if {
	every to in [[], ["a"], ["a@example.com, x@elsewhere.test"], ["<a@example.com>"], ["a@b@example.com"], [7]] {
		codes(to, {}) == {"mail_recipient_unclear"}
	}
}

test_personal_data_does_not_leave if {
	codes(["x@elsewhere.test"], facts({"personal_data": true})) == {"personal_data_leaves"}
	decide(["a@example.com"], facts({"personal_data": true})).decision == "allow"
}

test_an_approval_lets_this_mail_leave if {
	review := {"id": "rev_1", "state": "approved", "action_digest": "abc", "group": "office", "approvals": 1}
	decide(["x@elsewhere.test"], {"context": {"review": review}}).decision == "allow"
	other := object.union(review, {"action_digest": "other"})
	decide(["x@elsewhere.test"], {"context": {"review": other}}).decision == "deny"
}

test_not_before_somebody_has_opened_it if {
	decide(["a@example.com"], {"action": {"opened": false}}).decision == "deny"
}

test_nobody_else if decide(["a@example.com"], {"subject": {"roles": ["reviewer"]}}).decision == "deny"

test_a_rate_that_cannot_be_counted_lets_nothing_through if {
	uncounted := main.decision with input as mail(["a@example.com"])
		with data.memoryos.limits as {"mail.send": {"rates": [{"name": "x", "per": "nobody", "limit": 1, "window_s": 1}]}}
	{r.code | some r in uncounted.reasons} == {"rate_not_countable"}
}

test_listed if decide([], {"purpose": "list"}).decision == "allow"
