package memoryos.subjects_test

import data.memoryos.subjects

subject(roles) := {"subject": {"tenant": "acme", "user": "u1", "roles": roles}, "actor": {"chain": []}}

chained(chain) := object.union(subject(["user", "tenant-admin"]), {"actor": {"chain": chain}})

test_known if {
	every role in ["agent", "user", "tenant-admin"] {
		subjects.known with input as subject([role])
	}
}

test_unknown if {
	every input_ in [{}, subject([]), subject(["reviewer"]), {"subject": {"roles": ["user"]}}] {
		not subjects.known with input as input_
	}
}

test_an_agent_acts_as_an_agent_only if {
	roles := subjects.acting_roles with input as chained(["helper"])
	roles == {"agent"}
	token_roles := subjects.acting_roles with input as subject(["agent", "tenant-admin"])
	token_roles == {"agent"}
}

test_a_person_acts_in_all_roles if {
	roles := subjects.acting_roles with input as chained([])
	roles == {"user", "tenant-admin"}
}

test_disabled_users if {
	subjects.disabled with input as subject(["user"]) with data.memoryos.organisation.disabled_users as ["u1"]
	not subjects.disabled with input as subject(["user"]) with data.memoryos.organisation.disabled_users as ["u2"]
}
