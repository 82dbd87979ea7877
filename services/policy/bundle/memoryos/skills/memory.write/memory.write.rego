# Writing memory: where it may be written is limited by the memory service, by the same token.
package memoryos.skills["memory.write"]

import data.memoryos.subjects

visible if subjects.known

allow contains {"code": "memory_writable", "text": "Memory may be written within the rights of the token."} if {
	input.action.effect_class in {"idempotent", "keyed", "non_idempotent"}
}
