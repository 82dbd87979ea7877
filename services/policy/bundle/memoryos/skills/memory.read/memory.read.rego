# Recalling memory: what is found is limited by the memory service, by the same token.
package memoryos.skills["memory.read"]

import data.memoryos.subjects

visible if subjects.known

allow contains {"code": "memory_readable", "text": "Memory may be read within the rights of the token."} if {
	input.action.effect_class == "read"
}
