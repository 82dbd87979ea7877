package memoryos.library.amounts_test

import data.memoryos.library.amounts
import data.memoryos.testing

limits := {"x.y": {"max_amount": {"agent": 5, "user": 10}, "review": {"quorum": 2, "expires_in_s": 60}}}

test_limits_by_acting_role if {
	amounts.within(10) with input as testing.call with data.memoryos.limits as limits
	amounts.above(10.01) with input as testing.call with data.memoryos.limits as limits
	delegated := testing.with_changes({"actor": {"chain": ["helper"]}})
	amounts.above(6) with input as delegated with data.memoryos.limits as limits
}

test_what_is_no_amount_is_neither if {
	every amount in [0, -1, "5", null, [5], true] {
		not amounts.within(amount) with input as testing.call with data.memoryos.limits as limits
		not amounts.above(amount) with input as testing.call with data.memoryos.limits as limits
	}
}

test_without_a_limit_nothing_is_within if {
	not amounts.within(1) with input as testing.call with data.memoryos.limits as {}
	reviewer := testing.with_changes({"subject": {"roles": ["reviewer"]}})
	not amounts.within(1) with input as reviewer with data.memoryos.limits as limits
}

test_who_approves if {
	found := amounts.approval with input as testing.call with data.memoryos.limits as limits
		with data.memoryos.groups as {"x.y": {"approvers": "finance"}}
	found == {"group": "finance", "quorum": 2, "expires_in_s": 60}
}
