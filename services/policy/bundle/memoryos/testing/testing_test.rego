# One well-formed call that tests change. No part of the bundle: OPA is never given it.
package memoryos.testing

call := {
	"version": 1,
	"purpose": "call",
	"subject": {"tenant": "acme", "user": "u1", "roles": ["user"], "groups": ["sales"], "clearance": 1},
	"actor": {"chain": [], "service": "tool-gateway"},
	"action": {
		"skill": "x.y", "version": "1", "definition_digest": "d", "permissions": [],
		"effect_class": "keyed", "risk": "low", "opened": true, "egress": "none", "destructive": false,
		"returns": [], "identity": "user", "recipients": [], "sensitive_arguments": [],
	},
	"resource": {"type": "", "id": "", "properties": {}},
	"args": {},
	"action_digest": "abc",
	"context": {
		"call_id": "call_1", "attempt": 1, "session_id": "ses_1", "task_id": "", "time": "2026-03-04T05:06:07.000000Z",
		"review": null, "session_facts": quiet,
	},
}

quiet := {"untrusted_content": false, "personal_data": false, "sources": [], "said": [], "named": [], "asked": false}

# The call with these parts of it changed, however deep.
with_changes(changes) := object.union(call, changes)

codes(findings) := {f.code | some f in findings}
