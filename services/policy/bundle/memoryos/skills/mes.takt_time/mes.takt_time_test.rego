package memoryos.skills_test["mes.takt_time"]

import data.memoryos.main

call := {
	"version": 1,
	"purpose": "call",
	"subject": {"tenant": "acme", "user": "u1", "roles": ["user"], "groups": [], "clearance": 0},
	"actor": {"chain": [], "service": "tool-gateway"},
	"action": {
		"skill": "mes.takt_time", "version": "1", "definition_digest": "d",
		"permissions": [], "effect_class": "read", "risk": "low",
	},
	"resource": {"type": "", "id": "1", "properties": {}},
	"args": {},
	"action_digest": "abc",
	"context": {"call_id": "call_1", "attempt": 1, "review": null},
}

decide(changes) := d if d := main.decision with input as object.union(call, changes)

codes(changes) := {r.code | some r in decide(changes).reasons}

test_everyone_who_may_use_tools if {
	decide({}).decision == "allow"
	decide({"subject": {"roles": ["agent"]}, "actor": {"chain": ["helper"]}}).decision == "allow"
	codes({}) == {"line_data_readable"}
}

test_nobody_else if decide({"subject": {"roles": ["reviewer"]}}).decision == "deny"

test_another_effect_class_is_denied if {
	decide({"action": {"effect_class": "non_idempotent"}}).decision == "deny"
}

test_listed if decide({"purpose": "list"}).decision == "allow"
