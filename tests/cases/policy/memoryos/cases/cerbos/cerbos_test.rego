package memoryos.cases.cerbos_test

import data.memoryos.cases.cerbos

rule(fields) := object.union({"actions": ["read"], "roles": [], "derived_roles": [], "condition": null}, fields)

allowed(operation, rules) if {
	count(cerbos.allow) > 0 with data.memoryos.cases.cerbos_policies as {"07": {"contact": rules}}
		with data.memoryos.cases.cerbos_roles as {"07": {"owner": {
			"parents": ["user"],
			"condition": {"left": {"property": "ownerId"}, "right": {"is": "principal_id"}},
		}}}
		with input as {
			"action": {"skill": sprintf("cerbos.07.contact.%s", [operation])},
			"subject": {"user": "u1", "groups": ["user"]},
			"resource": {"id": "u1", "properties": {"ownerId": "u1", "public": true}},
		}
}

test_roles_and_actions if {
	allowed("read", [rule({"roles": ["user"]})])
	allowed("delete", [rule({"roles": ["user"], "actions": ["*"]})])
	not allowed("delete", [rule({"roles": ["user"]})])
	not allowed("read", [rule({"roles": ["admin"]})])
	not allowed("read", [])
}

test_derived_roles if {
	allowed("read", [rule({"derived_roles": ["owner"]})])
	not allowed("read", [rule({"derived_roles": ["other"]})])
}

test_conditions if {
	allowed("read", [rule({"roles": ["user"], "condition": {"left": {"is": "resource_id"}, "right": {"is": "principal_id"}}})])
	allowed("read", [rule({"roles": ["user"], "condition": {"left": {"property": "public"}, "right": {"literal": true}}})])
	not allowed("read", [rule({"roles": ["user"], "condition": {"left": {"property": "none"}, "right": {"literal": true}}})])
}
