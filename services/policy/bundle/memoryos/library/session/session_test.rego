package memoryos.library.session_test

import data.memoryos.library.session
import data.memoryos.testing

tainted(facts) := {"context": {"session_facts": object.union({"untrusted_content": true}, facts)}}

mail(to, body) := testing.with_changes({
	"action": {"effect_class": "non_idempotent", "egress": "external", "recipients": ["/to/*"]},
	"args": {"to": to, "body": body},
})

asks(question, facts) := testing.codes(found) if {
	found := session.requests with input as object.union(question, tainted(facts))
}

denies(question, facts) := testing.codes(found) if {
	found := session.refusals with input as object.union(question, {"context": {"session_facts": facts}})
}

test_a_quiet_session_asks_nothing if {
	count(session.requests) == 0 with input as mail(["x@evil.test"], "secret")
	count(session.refusals) == 0 with input as mail(["x@evil.test"], "secret")
}

test_a_stranger_after_untrusted_content if {
	asks(mail(["x@evil.test"], "secret"), {}) == {"untrusted_recipient"}
	asks(mail(["a@example.com", "x@evil.test"], "secret"), {}) == {"untrusted_recipient"}
	asks(mail(["Bob <a@example.com>"], "secret"), {}) == {"untrusted_recipient"}
}

test_known_recipients if {
	asks(mail(["a@example.com"], "hello"), {}) == set()
	asks(mail(["x@evil.test"], "hello"), {"said": ["/to/0"]}) == set()
	asks(mail(["https://intra.example.com/hook"], "hello"), {}) == set()
	asks(mail(["https://evil.test/hook"], "hello"), {}) == {"untrusted_recipient"}
}

test_a_name_is_enough_only_where_the_organisation_says_so if {
	asks(mail(["bob@evil.test"], "hello"), {"named": ["/to/0"]}) == {"untrusted_recipient"}
	trusting := asks(mail(["bob@evil.test"], "hello"), {"named": ["/to/0"]}) with data.memoryos.organisation.names_suffice as true
	trusting == set()
}

test_the_users_own_words_carry_nothing_out if {
	asks(mail(["x@evil.test"], "hello"), {"said": ["/body"]}) == set()
	asks(mail(["x@evil.test"], "2026-03-04 10:00"), {}) == set()
	asks(mail(["x@evil.test"], "10:00"), {}) == set()
	asks(mail(["x@evil.test"], "463820"), {}) == {"untrusted_recipient"}
}

test_letting_somebody_in_needs_a_name if {
	invite := testing.with_changes({
		"action": {"egress": "external", "recipients": ["/email"]},
		"args": {"email": "x@evil.test"},
	})
	asks(invite, {}) == {"untrusted_recipient"}
	asks(invite, {"said": ["/email"]}) == set()
}

test_within_a_system_only_what_leads_out_needs_a_name if {
	chat := object.union(mail(["Alice"], "hello"), {"action": {"egress": "internal"}})
	asks(chat, {}) == set()
	asks(object.union(chat, {"args": {"to": ["www.evil.test"]}}), {}) == {"untrusted_recipient"}
	asks(object.union(chat, {"args": {"to": ["x@evil.test"]}}), {}) == {"untrusted_recipient"}
}

test_links_in_what_is_sent if {
	asks(mail(["a@example.com"], "see www.evil.test"), {}) == {"untrusted_link"}
	asks(mail(["a@example.com"], "see www.evil.test"), {"said": ["/body"]}) == set()
	asks(mail(["a@example.com"], "see https://wiki.example.com/x"), {}) == set()
}

test_removing_what_nobody_asked_to_remove if {
	remove := testing.with_changes({"action": {"destructive": true}, "args": {"id": "13"}})
	asks(remove, {}) == {"untrusted_destructive"}
	asks(remove, {"asked": true}) == set()
}

test_sending_out_without_a_recipient if {
	post := testing.with_changes({"action": {"egress": "external"}, "args": {"text": "secret"}})
	asks(post, {}) == {"untrusted_write"}
	asks(post, {"asked": true}) == set()
	asks(post, {"said": ["/text"]}) == set()
}

test_reading_and_writing_inside_goes_on if {
	asks(testing.with_changes({"action": {"effect_class": "read", "egress": "external"}}), {}) == set()
	asks(testing.with_changes({"args": {"text": "note"}}), {}) == set()
}

test_personal_data_stays if {
	personal := {"personal_data": true}
	denies(mail(["x@evil.test"], "hi"), personal) == {"personal_data_leaves"}
	denies(mail(["a@example.com", "x@evil.test"], "hi"), personal) == {"personal_data_leaves"}
	denies(mail([], "hi"), personal) == {"personal_data_leaves"}
	denies(mail(["a@example.com"], "hi"), personal) == set()
}
