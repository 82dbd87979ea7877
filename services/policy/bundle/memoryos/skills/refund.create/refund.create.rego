# Paying money back: up to the limit of the acting role; above it only with the
# approval of a person of the approving group.
package memoryos.skills["refund.create"]

import data.memoryos.groups
import data.memoryos.limits
import data.memoryos.subjects

visible if count(allowances) > 0

# What the acting roles may refund without asking.
allowances contains limits["refund.create"].max_amount[role] if some role in subjects.acting_roles

limit := max(allowances)

valid_amount if {
	is_number(input.args.amount)
	input.args.amount > 0
}

allow contains {"code": "refund_within_limit", "text": "The amount is within the limit of the acting role."} if {
	valid_amount
	input.args.amount <= limit
}

manual_review contains {
	"code": "refund_above_limit",
	"text": "The amount is above the limit of the acting role.",
	"approval": {
		"group": groups["refund.create"].approvers,
		"quorum": limits["refund.create"].review.quorum,
		"expires_in_s": limits["refund.create"].review.expires_in_s,
	},
} if {
	valid_amount
	input.args.amount > limit
}

deny contains {"code": "refund_amount_invalid", "text": "The amount is not a positive number."} if {
	input.purpose == "call"
	not valid_amount
}
