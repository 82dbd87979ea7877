# What cannot be brought back: a person looks at it, two where it is critical, and agents of agents do not do it.
package memoryos.library.destructive

import data.memoryos.organisation

is_destructive if input.action.destructive == true

requests contains {
	"code": "destructive",
	"text": "This removes or overwrites what cannot be brought back.",
	"approval": object.union(organisation.review, {"quorum": quorum}),
} if {
	is_destructive
}

default quorum := 1

quorum := 2 if input.action.risk == "critical"

refusals contains {"code": "destructive_by_sub_agent", "text": "An agent of an agent removes nothing for good."} if {
	is_destructive
	count(input.actor.chain) > 1
}
