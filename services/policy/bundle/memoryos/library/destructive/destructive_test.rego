package memoryos.library.destructive_test

import data.memoryos.library.destructive
import data.memoryos.testing

asked(changes) := found if found := destructive.requests with input as testing.with_changes(changes)

test_a_person_looks_at_it if {
	{r.approval.quorum | some r in asked({"action": {"destructive": true}})} == {1}
	{r.approval.quorum | some r in asked({"action": {"destructive": true, "risk": "critical"}})} == {2}
	asked({}) == set()
}

test_no_agent_of_an_agent if {
	found := destructive.refusals with input as testing.with_changes({"action": {"destructive": true}, "actor": {"chain": ["a", "b"]}})
	testing.codes(found) == {"destructive_by_sub_agent"}
	one := destructive.refusals with input as testing.with_changes({"action": {"destructive": true}, "actor": {"chain": ["a"]}})
	one == set()
}
