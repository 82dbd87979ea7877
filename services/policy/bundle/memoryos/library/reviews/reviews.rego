# Requests for the review of a call by people: how many of which group, and until when.
package memoryos.library.reviews

import data.memoryos.organisation

# One person of the group that looks at whatever names no other.
by_default(code, text) := {"code": code, "text": text, "approval": organisation.review}

# Two different people of a group; nobody who stands in the chain of the call is one of them.
four_eyes(code, text, group) := {
	"code": code,
	"text": text,
	"approval": {"group": group, "quorum": 2, "expires_in_s": organisation.review.expires_in_s},
}
