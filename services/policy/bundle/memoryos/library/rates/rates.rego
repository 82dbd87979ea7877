# Rates and budgets: obligations that the gateway counts, over all its replicas, when it sends a call.
# data.memoryos.limits[skill].rates is a list of {"name", "per": "user"|"tenant"|"session", "limit", "window_s"},
# with "amount": "/pointer of one step" where what counts is an argument and not the call.
package memoryos.library.rates

import data.memoryos.limits

obligations contains {
	"kind": "rate_limit",
	"key": sprintf("%s:%s:%s", [input.action.skill, rate.name, holder[rate.per]]),
	"limit": rate.limit,
	"window_s": rate.window_s,
	"cost": cost(rate),
} if {
	input.purpose == "call"
	some rate in limits[input.action.skill].rates
}

holder := {
	"user": sprintf("user:%s", [input.subject.user]),
	"tenant": "tenant",
	"session": session,
}

# Outside of any session users have a count of their own, not one between all of them.
session := sprintf("session:%s", [input.context.session_id]) if {
	input.context.session_id != ""
} else := sprintf("session:/%s", [input.subject.user])

cost(rate) := 1 if {
	not rate.amount
} else := amount if {
	amount := input.args[substring(rate.amount, 1, -1)]
	is_number(amount)
	amount > 0
}

# A rate that cannot be counted lets nothing through.
refusals contains {"code": "rate_not_countable", "text": "What this call would take of its budget is not known."} if {
	input.purpose == "call"
	some rate in limits[input.action.skill].rates
	not countable(rate)
}

countable(rate) if {
	cost(rate) > 0
	holder[rate.per]
}
