package memoryos.reviewing_test

import data.memoryos.reviewing

request := {
	"code": "ask",
	"text": "Ask.",
	"approval": {"group": "finance", "quorum": 2, "expires_in_s": 60},
}

with_review(fields) := {"action_digest": "abc", "context": {"review": object.union(
	{"id": "rev_1", "state": "approved", "action_digest": "abc", "group": "finance", "approvals": 2},
	fields,
)}}

test_settled if reviewing.settled({request}) with input as with_review({})

test_nothing_asked_is_nothing_settled if {
	not reviewing.settled(set()) with input as with_review({})
}

test_not_settled if {
	every fields in [{"state": "pending"}, {"action_digest": "x"}, {"group": "sales"}, {"approvals": 1}] {
		not reviewing.settled({request}) with input as with_review(fields)
	}
	not reviewing.settled({request}) with input as {"action_digest": "abc", "context": {"review": null}}
	not reviewing.settled({request}) with input as {}
}

test_two_requests_need_both if {
	other := object.union(request, {"approval": {"group": "legal", "quorum": 1, "expires_in_s": 60}})
	not reviewing.settled({request, other}) with input as with_review({})
}

test_refusals if {
	denied := reviewing.refusals with input as with_review({"state": "denied"})
	{f.code | some f in denied} == {"review_denied"}
	other := reviewing.refusals with input as with_review({"action_digest": "x"})
	{f.code | some f in other} == {"review_other_action"}
	approved := reviewing.refusals with input as with_review({})
	approved == set()
}
