# The one question that is asked of this bundle: data.memoryos.main.decision.
#
# A skill's rules live in data.memoryos.skills[<name of the skill>] and give
#   visible           true when a call by this subject is thinkable at all
#   allow, deny       sets of {"code", "text"}
#   manual_review     set of {"code", "text", "approval": {"group", "quorum", "expires_in_s"}}
#   obligations       set of obligations (result.schema.json), for a call that is not denied
#   risk              where they see another one than the skill's file
# Any deny wins over every manual_review, which wins over every allow. A skill
# without rules, and rules that say nothing, are a deny. Rules of the library
# that hold for every skill are asked here.
package memoryos.main

import data.memoryos.library.chain
import data.memoryos.library.identity
import data.memoryos.library.opening
import data.memoryos.library.session
import data.memoryos.organisation
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
	is_object(input.context.session_facts)
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

general contains reason("subject_disabled", "The user has been disabled.") if {
	rules
	subjects.disabled
}

general contains reason_of("memoryos.library.chain", finding) if {
	rules
	some finding in chain.refusals
}

general contains reason_of("memoryos.library.opening", finding) if {
	rules
	some finding in opening.refusals
}

general contains reason_of("memoryos.library.identity", finding) if {
	rules
	some finding in identity.refusals
}

general contains reason_of("memoryos.library.session", finding) if {
	rules
	input.purpose == "call"
	some finding in session.refusals
}

general contains reason("review_groups_differ", "The rules ask different groups to approve one call.") if {
	count(groups_asked) > 1
}

general contains finding if {
	count(requests) > 0
	some finding in reviewing.refusals
}

# Who must approve: one group for all that is asked, the strictest of what its rules say; what only a general
# rule asks, by whoever looks at such things.
requests := {object.union(request, {"approval": approval}) | some request in all_requests}

all_requests := own_requests | general_requests

own_requests := {{"code": r.code, "text": r.text, "policy": policy} |
	some r in asked_by_skill
}

general_requests := {{"code": r.code, "text": r.text, "policy": "memoryos.library.session"} |
	input.purpose == "call"
	rules
	some r in session.requests
}

asked_by_skill := {r |
	input.purpose == "call"
	some r in object.get(rules, "manual_review", set())
}

groups_asked := {r.approval.group | some r in asked_by_skill}

approval := {
	"group": [group | some group in groups_asked][0],
	"quorum": max({r.approval.quorum | some r in asked_by_skill}),
	"expires_in_s": min({r.approval.expires_in_s | some r in asked_by_skill}),
} if {
	count(asked_by_skill) > 0
} else := organisation.review

# What the rules of the skill ask of whoever makes the call, beside an approval.
required contains obligation if some obligation in rules.obligations

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
	"reasons": {reason_of(r.policy, r) | some r in requests},
	"agent_message": "This action waits for the approval of a person.",
	"obligations": (reviewing.obligations(requests) | required),
	"confirm_time": confirm_time,
}

# No rule speaks: as the default, with the time that a probe of the service asks for.
unruled := denied({reason("no_rule", "No rule allows this call.")})

# Risk as the skill's rules see it, else as its file declares it; what declares none is taken for the worst.
default risk := "critical"

risk := rules.risk if {
	rules.risk in risks
} else := input.action.risk if {
	input.action.risk in risks
}

risks := {"low", "medium", "high", "critical"}

# When the source of this bundle last confirmed it: stated by whoever runs OPA, beside the bundle.
default confirm_time := ""

confirm_time := data.system.build.confirm_time
