# What the rules of skills ask about the subject of a call.
package memoryos.subjects

import data.memoryos.organisation

# The subject holds a role that may use tools, itself or through agents.
known if {
	is_string(input.subject.tenant)
	is_string(input.subject.user)
	some role in input.subject.roles
	role in {"agent", "user", "tenant-admin"}
}

# Whoever is disabled asks for nothing any more, and nothing that waits for a review goes on in that name.
disabled if input.subject.user in organisation.disabled_users

# An agent asks: one stands in the chain, or the token itself is an agent's.
is_agent if count(input.actor.chain) > 0

is_agent if "agent" in input.subject.roles

# The roles that count for this call: an agent never has more than an agent's,
# whoever it works for.
acting_roles := {"agent"} if {
	is_agent
} else := {role | some role in input.subject.roles}
