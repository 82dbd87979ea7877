package memoryos.skills_test["ticket.delete"]

import data.memoryos.main
import data.memoryos.testing

call := testing.with_changes({"action": {"skill": "ticket.delete", "effect_class": "non_idempotent"}, "resource": {"type": "ticket", "id": "1", "properties": {}}, "args": {"ticket_id": "1"}})

decide(changes) := d if d := main.decision with input as object.union(call, changes)

codes(changes) := {r.code | some r in decide(changes).reasons}

ticket(environment) := {"resource": {"properties": {"environment": environment}}}

test_a_test_ticket_may_go if {
	decide(ticket("test")).decision == "allow"
	decide(object.union(ticket("test"), {"subject": {"roles": ["agent"]}})).decision == "allow"
}

test_a_production_ticket_stays if {
	d := decide(ticket("production"))
	d.decision == "deny"
	"ticket_is_production" in codes(ticket("production"))
	d.agent_message == "This action is not permitted."
}

test_whatever_is_not_said_to_be_test_stays if {
	every environment in ["", "TEST", "Production", "staging", null, true, 1, ["test"], {"test": true}] {
		decide(ticket(environment)).decision == "deny"
	}
	decide({}).decision == "deny"
	codes({}) == {"ticket_not_known_as_test"}
}

test_what_the_caller_calls_it_is_no_matter if {
	decide({"args": {"environment": "test"}}).decision == "deny"
}

test_another_kind_of_resource_is_no_ticket if {
	decide(object.union(ticket("test"), {"resource": {"type": "order", "properties": {"environment": "test"}}})).decision == "deny"
}

test_the_ticket_looked_up_is_the_one_that_would_go if {
	decide(object.union(ticket("test"), {"args": {"ticket_id": "2"}})).decision == "deny"
	decide(object.union(ticket("test"), {"resource": {"id": null, "properties": {"environment": "test"}}})).decision == "deny"
}

test_listed if decide({"purpose": "list"}).decision == "allow"
