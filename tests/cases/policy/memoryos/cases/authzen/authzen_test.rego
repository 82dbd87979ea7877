package memoryos.cases.authzen_test

import data.memoryos.cases.authzen

asked(operation, groups, owner) := {
	"action": {"skill": sprintf("authzen.%s", [operation])},
	"subject": {"user": "u1", "groups": groups},
	"resource": {"properties": {"ownerID": owner}},
}

codes(operation, groups, owner) := {f.code | some f in found} if found := authzen.allow with input as asked(operation, groups, owner)

test_everybody_reads if {
	codes("can_read_user", ["viewer"], "u2") == {"everybody_reads"}
	codes("GET", [], "") == {"everybody_reads"}
}

test_editors if {
	codes("can_create_todo", ["editor"], "u2") == {"editors_create"}
	codes("can_create_todo", ["viewer"], "u1") == set()
	codes("can_update_todo", ["editor"], "u1") == {"editors_change_their_own"}
	codes("can_update_todo", ["editor"], "u2") == set()
}

test_those_who_do_more if {
	codes("can_delete_todo", ["admin"], "u2") == {"admins_delete"}
	codes("can_update_todo", ["evil_genius"], "u2") == {"evil_geniuses_update"}
}
