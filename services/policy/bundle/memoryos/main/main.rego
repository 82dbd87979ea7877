# The one question that is asked of this bundle: data.memoryos.main.decision.
#
# A skill's rules live in data.memoryos.skills[<name of the skill>] and give
#   visible           true when a call by this subject is thinkable at all
#   allow, deny       sets of {"code", "text"}
#   manual_review     set of {"code", "text", "approval": {"group", "quorum", "expires_in_s"}}
# Any deny wins over every manual_review, which wins over every allow. A skill
# without rules, and rules that say nothing, are a deny.
package memoryos.main

import data.memoryos.reviewing
import data.memoryos.skills
import data.memoryos.subjects

default decision := {
	"decision": "deny",
	"reasons": [{"code": "no_rule", "policy": "memoryos.main", "text": "No rule allows this call."}],
	"agent_message": "This action is not permitted.",
	"obligations": [],
	"confirm_time": "",
}

decision := denied(denials) if {
	count(denials) > 0
} else := listed if {
	input.purpose == "list"
	rules.visible == true
} else := needs_review if {
	callable
	not reviewing.settled(requests)
	count(requests) > 0
} else := allowed(reviewing.reasons(requests)) if {
	callable
	count(requests) > 0
	reviewing.settled(requests)
} else := allowed(named(rules.allow)) if {
	callable
	count(requests) == 0
	count(rules.allow) > 0
}

rules := skills[input.action.skill]

policy := sprintf("memoryos.skills.%s", [input.action.skill])

# A call by a subject and of a form that we know, of a skill that it may see.
callable if {
	input.purpose == "call"
	subjects.known
	well_formed
	rules.visible == true
}

well_formed if {
	input.version == 1
	is_object(input.args)
	is_object(input.resource.properties)
	is_string(input.action_digest)
	input.action.effect_class in {"read", "idempotent", "keyed", "non_idempotent"}
}

denials := general | named(object.get(rules, "deny", set()))

# Said for every skill that has rules; a skill without any falls to the default.
general contains reason("input_version", "The input is not of a version that this bundle knows.") if {
	rules
	not input.version == 1
}

general contains reason("input_malformed", "The input lacks what every call must state.") if {
	rules
	not input.purpose == "list"
	not well_formed
}

general contains reason("subject_unknown", "The subject has no role that may use tools.") if {
	rules
	not subjects.known
}

general contains reason("chain_too_deep", "Too many agents stand between the user and this call.") if {
	rules
	not subjects.chain_bounded
}

general contains finding if {
	count(requests) > 0
	some finding in reviewing.refusals
}

requests := {r |
	input.purpose == "call"
	some r in object.get(rules, "manual_review", set())
}

named(findings) := {reason_of(policy, f) | some f in findings}

reason(code, text) := reason_of("memoryos.main", {"code": code, "text": text})

reason_of(where, finding) := {"code": finding.code, "policy": where, "text": finding.text}

listed := allowed({reason_of(policy, {"code": "visible", "text": "The subject may ask for this skill."})})

denied(reasons) := {
	"decision": "deny",
	"reasons": reasons,
	"agent_message": "This action is not permitted.",
	"obligations": [],
	"confirm_time": confirm_time,
}

allowed(reasons) := {
	"decision": "allow",
	"reasons": reasons,
	"agent_message": "",
	"obligations": [],
	"confirm_time": confirm_time,
}

needs_review := {
	"decision": "manual_review",
	"reasons": named(requests),
	"agent_message": "This action waits for the approval of a person.",
	"obligations": reviewing.obligations(requests),
	"confirm_time": confirm_time,
}

# When the source of this bundle last confirmed it: stated by whoever runs OPA, beside the bundle.
default confirm_time := ""

confirm_time := data.system.build.confirm_time
