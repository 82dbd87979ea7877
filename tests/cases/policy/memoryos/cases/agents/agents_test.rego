package memoryos.cases.agents_test

import data.memoryos.cases.agents
import data.memoryos.testing

test_usable if {
	count(agents.allow) == 1 with input as testing.call
	count(agents.allow) == 0 with input as testing.with_changes({"subject": {"roles": []}})
}
