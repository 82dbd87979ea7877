package memoryos.library.identity_test

import data.memoryos.library.identity
import data.memoryos.testing

refused(who, skills) := testing.codes(found) if {
	found := identity.refusals with input as testing.with_changes({"action": {"identity": who}})
		with data.memoryos.organisation.service_account_skills as skills
}

test_the_user_and_nobody if {
	refused("user", []) == set()
	refused("none", []) == set()
}

test_one_account_for_all_only_where_it_is_let if {
	refused("service", []) == {"service_account_not_allowed"}
	refused("service", ["x.y"]) == set()
	refused("root", ["x.y"]) == {"service_account_not_allowed"}
}
