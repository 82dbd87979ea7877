# A user's own records. Who owns a record says the system that keeps it: the gateway looks it up before it asks,
# and what a caller writes into its arguments is no matter.
package memoryos.library.ownership

import data.memoryos.organisation
import data.memoryos.subjects

# The property of this kind of resource that names its owner.
owner_property := property if {
	property := organisation.owner_property[input.resource.type]
} else := organisation.owner_property["default"]

own if {
	input.resource.id != ""
	input.resource.properties[owner_property] == input.subject.user
}

# Roles that see every record of their tenant, when a person acts; an agent never more than its user owns.
sees_all if {
	some role in subjects.acting_roles
	role in organisation.sees_all_records
}

default permitted := false

permitted if own

permitted if sees_all

refusals contains {"code": "record_of_another", "text": "The record is not known to be the user's own."} if {
	input.purpose == "call"
	not permitted
}
