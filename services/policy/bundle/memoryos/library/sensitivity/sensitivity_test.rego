package memoryos.library.sensitivity_test

import data.memoryos.library.sensitivity
import data.memoryos.testing

refused(sensitivity_of, changes) := testing.codes(found) if {
	question := object.union(testing.with_changes({"resource": {"properties": {"sensitivity": sensitivity_of}}}), changes)
	found := sensitivity.refusals with input as question
}

test_clearance if {
	refused("public", {}) == set()
	refused("internal", {}) == set()
	refused("confidential", {}) == {"clearance_too_low"}
	refused("secret", {"subject": {"clearance": 3}}) == set()
}

test_what_is_not_known_is_the_highest if {
	every value in ["", "Public", null, 0, ["public"]] {
		refused(value, {}) == {"clearance_too_low"}
	}
}

test_only_public_leaves if {
	refused("public", {"action": {"egress": "external"}}) == set()
	refused("internal", {"action": {"egress": "external"}}) == {"sensitive_leaves"}
}

test_a_listing_has_no_record if refused("secret", {"purpose": "list"}) == set()
