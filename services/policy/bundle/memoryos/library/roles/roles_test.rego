package memoryos.library.roles_test

import data.memoryos.library.roles
import data.memoryos.testing

grants := {"x.y": {"roles": ["tenant-admin"], "groups": ["sales"]}}

by(roles, groups, chain) := testing.with_changes({
	"subject": {"roles": roles, "groups": groups},
	"actor": {"chain": chain},
})

refused(question) := testing.codes(found) if {
	found := roles.refusals with input as question with data.memoryos.organisation.grants as grants
}

test_by_role_or_group if {
	refused(by(["tenant-admin"], [], [])) == set()
	refused(by(["user"], ["sales"], [])) == set()
	refused(by(["user"], ["Sales", "support"], [])) == {"not_granted"}
	refused(by([], [], [])) == {"not_granted"}
}

test_an_agent_has_the_role_of_an_agent if {
	refused(by(["tenant-admin"], [], ["helper"])) == {"not_granted"}
	refused(by(["tenant-admin"], ["sales"], ["helper"])) == set()
}

test_a_skill_without_grants_is_for_nobody if {
	other := object.union(by(["tenant-admin"], ["sales"], []), {"action": {"skill": "other"}})
	refused(other) == {"not_granted"}
}

test_what_the_subject_holds if {
	roles.in_group("sales") with input as testing.call
	roles.has_role("user") with input as testing.call
	not roles.has_role("agent") with input as testing.call
}
