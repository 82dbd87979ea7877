# Reading one ticket.
package memoryos.skills["ticket.get"]

import data.memoryos.subjects

visible if subjects.known

allow contains {"code": "ticket_readable", "text": "Tickets are readable for everyone who may use tools."} if {
	input.action.effect_class == "read"
}
