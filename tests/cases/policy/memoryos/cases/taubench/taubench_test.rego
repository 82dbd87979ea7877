package memoryos.cases.taubench_test

import data.memoryos.cases.taubench
import data.memoryos.testing

order(owner) := testing.with_changes({"resource": {"type": "order", "id": "1", "properties": {"owner": owner}}})

allowed(question) := testing.codes(found) if found := taubench.allow with input as question

denied(question) := testing.codes(found) if found := taubench.deny with input as question

test_own_and_foreign if {
	allowed(order("u1")) == {"own_record"}
	denied(order("u1")) == set()
	allowed(order("u2")) == set()
	denied(order("u2")) == {"record_of_another"}
}

test_looking_things_up if {
	allowed(testing.with_changes({"action": {"effect_class": "read"}})) == {"readable"}
	denied(testing.with_changes({"action": {"effect_class": "read"}})) == set()
}

test_what_touches_no_record if {
	allowed(testing.with_changes({"resource": {"type": "none"}})) == {"no_record"}
	denied(testing.with_changes({"resource": {"type": "none"}})) == set()
}
