# Reading one customer; the CRM itself sees the user and answers for what that user may see.
package memoryos.skills["crm.customer"]

import data.memoryos.subjects

visible if subjects.known

allow contains {"code": "customer_readable", "text": "Customers are readable for everyone who may use tools."} if {
	input.action.effect_class == "read"
}
