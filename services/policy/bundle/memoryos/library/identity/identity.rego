# In whose name the upstream is called: the user's, or one account for all where the organisation lets this skill have one.
package memoryos.library.identity

import data.memoryos.organisation

refusals contains {
	"code": "service_account_not_allowed",
	"text": "The upstream knows one account for all users, and nobody has let this skill use it.",
} if {
	not stated
}

stated if input.action.identity in {"user", "none"}

stated if {
	input.action.identity == "service"
	input.action.skill in organisation.service_account_skills
}
