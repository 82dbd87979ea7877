# The one question that is asked of this bundle: data.memoryos.main.decision.
#
# A skill's rules live in data.memoryos.skills[<name of the skill>] and give
#   visible           true when a call by this subject is thinkable at all
#   allow, deny       sets of {"code", "text"}
#   manual_review     set of {"code", "text", "approval": {"group", "quorum", "expires_in_s"}}
#   obligations       set of obligations (result.schema.json), for a call that is not denied
# Any deny wins over every manual_review, which wins over every allow. A skill
# without rules, and rules that say nothing, are a deny.
package memoryos.main

import data.memoryos.reviewing
import data.memoryos.skills
import data.memoryos.subjects

default decision := {
	"decision": "deny",
	"risk": "critical",
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
} else := allowed(reviewing.reasons(requests), required) if {
	callable
	count(requests) > 0
	reviewing.settled(requests)
} else := allowed(named(rules.allow), required) if {
	callable
	count(requests) == 0
	count(rules.allow) > 0
} else := unruled if {
	confirm_time != ""
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

listed := allowed({reason_of(policy, {"code": "visible", "text": "The subject may ask for this skill."})}, set())

denied(reasons) := {
	"decision": "deny",
	"risk": risk,
	"reasons": reasons,
	"agent_message": "This action is not permitted.",
	"obligations": [],
	"confirm_time": confirm_time,
}

allowed(reasons, obligations) := {
	"decision": "allow",
	"risk": risk,
	"reasons": reasons,
	"agent_message": "",
	"obligations": obligations,
	"confirm_time": confirm_time,
}

needs_review := {
	"decision": "manual_review",
	"risk": risk,
	"reasons": named(requests),
	"agent_message": "This action waits for the approval of a person.",
	"obligations": (reviewing.obligations(requests) | required),
	"confirm_time": confirm_time,
}

# What the rules of the skill ask of whoever makes the call, beside an approval.
required contains obligation if some obligation in rules.obligations

# No rule speaks: as the default, with the time that a probe of the service asks for.
unruled := denied({reason("no_rule", "No rule allows this call.")})

# Risk as the skill declares it; what declares none is taken for the worst.
default risk := "critical"

risk := input.action.risk if input.action.risk in {"low", "medium", "high", "critical"}

# When the source of this bundle last confirmed it: stated by whoever runs OPA, beside the bundle.
default confirm_time := ""

confirm_time := data.system.build.confirm_time
