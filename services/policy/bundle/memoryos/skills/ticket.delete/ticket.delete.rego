# Deleting a ticket: only one that the ticket service itself calls a test ticket.
# The gateway looks the ticket up before it asks; what the caller calls it is no matter,
# and what was looked up must be the ticket that would go.
package memoryos.skills["ticket.delete"]

import data.memoryos.subjects

visible if subjects.known

allow contains {"code": "ticket_is_test", "text": "The ticket service calls this a test ticket."} if {
	input.resource.type == "ticket"
	input.resource.id == input.args.ticket_id
	input.resource.properties.environment == "test"
}

deny contains {"code": "ticket_is_production", "text": "The ticket service calls this a production ticket."} if {
	input.purpose == "call"
	input.resource.properties.environment == "production"
}

deny contains {"code": "ticket_not_known_as_test", "text": "The ticket service does not call this a test ticket."} if {
	input.purpose == "call"
	not is_test
}

is_test if input.resource.properties.environment == "test"
