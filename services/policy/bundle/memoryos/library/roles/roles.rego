# Roles and groups: who may ask for what. data.memoryos.organisation.grants maps a skill to the roles and groups
# that may call it: {"crm.customer": {"roles": ["user"], "groups": ["sales"]}}.
package memoryos.library.roles

import data.memoryos.organisation
import data.memoryos.subjects

granted := organisation.grants[input.action.skill]

default permitted := false

permitted if {
	some role in granted.roles
	role in subjects.acting_roles
}

permitted if {
	some group in granted.groups
	group in input.subject.groups
}

in_group(group) if group in input.subject.groups

has_role(role) if role in subjects.acting_roles

refusals contains {"code": "not_granted", "text": "None of the subject's roles and groups may call this."} if {
	input.purpose in {"call", "list"}
	not permitted
}
