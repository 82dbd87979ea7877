# Limits of amounts by the acting role: below them the call goes ahead, above them a person of the approving
# group decides. data.memoryos.limits[skill]: {"max_amount": {role: number}, "review": {"quorum", "expires_in_s"}};
# data.memoryos.groups[skill].approvers names the group.
package memoryos.library.amounts

import data.memoryos.groups
import data.memoryos.limits
import data.memoryos.subjects

limits_of_skill := limits[input.action.skill]

# What the acting roles may move without asking.
allowances contains limits_of_skill.max_amount[role] if some role in subjects.acting_roles

limit := max(allowances)

is_amount(amount) if {
	is_number(amount)
	amount > 0
}

within(amount) if {
	is_amount(amount)
	amount <= limit
}

above(amount) if {
	is_amount(amount)
	amount > limit
}

approval := {
	"group": groups[input.action.skill].approvers,
	"quorum": limits_of_skill.review.quorum,
	"expires_in_s": limits_of_skill.review.expires_in_s,
}
