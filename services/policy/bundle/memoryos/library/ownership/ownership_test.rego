package memoryos.library.ownership_test

import data.memoryos.library.ownership
import data.memoryos.testing

record(type, properties) := testing.with_changes({"resource": {"type": type, "id": "1", "properties": properties}})

refused(question) := testing.codes(found) if found := ownership.refusals with input as question

test_the_owner_may if refused(record("order", {"owner": "u1"})) == set()

test_nobody_else if {
	every owner in ["u2", "U1", "", null, ["u1"], {"u1": true}] {
		refused(record("order", {"owner": owner})) == {"record_of_another"}
	}
	refused(record("order", {})) == {"record_of_another"}
}

test_a_record_without_a_name_has_no_owner if {
	refused(object.union(record("order", {"owner": "u1"}), {"resource": {"id": ""}})) == {"record_of_another"}
}

test_the_property_is_of_the_kind_of_resource if {
	kinds := {"order": "user_id", "default": "owner"}
	found := ownership.refusals with input as record("order", {"user_id": "u1"})
		with data.memoryos.organisation.owner_property as kinds
	found == set()
	other := ownership.refusals with input as record("ticket", {"user_id": "u1"})
		with data.memoryos.organisation.owner_property as kinds
	testing.codes(other) == {"record_of_another"}
}

test_roles_that_see_all if {
	foreign := record("order", {"owner": "u2"})
	refused(object.union(foreign, {"subject": {"roles": ["tenant-admin"]}})) == set()
	refused(object.union(foreign, {"subject": {"roles": ["tenant-admin"]}, "actor": {"chain": ["helper"]}})) == {"record_of_another"}
}

test_a_listing_has_no_record if refused(testing.with_changes({"purpose": "list"})) == set()
