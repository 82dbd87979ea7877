# The interop scenarios of OpenID AuthZEN: a list of things to do, and an API gateway. Roles come as groups of the user.
package memoryos.cases.authzen

operation := trim_prefix(input.action.skill, "authzen.")

groups := {group | some group in input.subject.groups}

writers := {"editor", "admin", "evil_genius"}

own if input.resource.properties.ownerID == input.subject.user

allow contains finding("everybody_reads") if operation in {"can_read_user", "can_read_todos", "GET"}

allow contains finding("editors_create") if {
	operation in {"can_create_todo", "POST", "PUT", "DELETE"}
	count(groups & writers) > 0
}

allow contains finding("editors_change_their_own") if {
	operation in {"can_update_todo", "can_delete_todo"}
	count(groups & writers) > 0
	own
}

allow contains finding("admins_delete") if {
	operation == "can_delete_todo"
	"admin" in groups
}

allow contains finding("evil_geniuses_update") if {
	operation == "can_update_todo"
	"evil_genius" in groups
}

finding(code) := {"code": code, "text": "A rule of the scenario allows it."}
