package memoryos.skills_test["memory.write"]

import data.memoryos.main
import data.memoryos.testing

call := testing.with_changes({"action": {"skill": "memory.write", "effect_class": "keyed"}})

decide(changes) := d if d := main.decision with input as object.union(call, changes)

codes(changes) := {r.code | some r in decide(changes).reasons}

test_everyone_who_may_use_tools if {
	decide({}).decision == "allow"
	decide({"subject": {"roles": ["agent"]}, "actor": {"chain": ["helper"]}}).decision == "allow"
	codes({}) == {"memory_writable"}
}

test_nobody_else if decide({"subject": {"roles": ["reviewer"]}}).decision == "deny"

test_another_effect_class_is_denied if {
	decide({"action": {"effect_class": "read"}}).decision == "deny"
}

test_listed if decide({"purpose": "list"}).decision == "allow"
