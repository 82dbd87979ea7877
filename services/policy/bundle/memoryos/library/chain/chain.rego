# How deep agents may stand between the user and a call, for all skills and for one:
# data.memoryos.organisation.chain_max, data.memoryos.limits[skill].chain_max.
package memoryos.library.chain

import data.memoryos.limits
import data.memoryos.organisation

chain_max := min({organisation.chain_max, object.get(limits, [input.action.skill, "chain_max"], organisation.chain_max)})

default bounded := false

bounded if count(input.actor.chain) <= chain_max

refusals contains {"code": "chain_too_deep", "text": "Too many agents stand between the user and this call."} if {
	not bounded
}
