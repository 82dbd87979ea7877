# How the review of a call, loaded by the policy service itself, settles the
# requests for review of the skill's rules. Nothing in a request can state it.
package memoryos.reviewing

review := input.context.review

# The review of this very call was approved, for all that is asked now: a rule
# that has come to ask another group or a larger quorum is not settled by it.
settled(requests) if {
	count(requests) > 0
	review.state == "approved"
	review.action_digest == input.action_digest
	every request in requests {
		review.group == request.approval.group
		review.approvals >= request.approval.quorum
	}
}

# Reasons of an allow that rests on a review.
reasons(requests) := {{
	"code": "review_approved",
	"policy": "memoryos.reviewing",
	"text": "A person has approved this call.",
}} | {{"code": r.code, "policy": r.policy, "text": r.text} | some r in requests}

# A review that has ended otherwise refuses the call for good.
refusals contains refusal("review_denied", "A reviewer has denied this call.") if review.state == "denied"

refusals contains refusal("review_expired", "Nobody approved this call in time.") if review.state == "expired"

refusals contains refusal("review_other_action", "The review was opened for another action.") if {
	is_string(review.state)
	not review.action_digest == input.action_digest
}

refusal(code, text) := {"code": code, "policy": "memoryos.reviewing", "text": text}

# What the gateway must see to, once each.
obligations(requests) := {object.union({"kind": "approval"}, r.approval) | some r in requests}
