# Mails: to people of the organisation at once, to anybody else after a person of the approving group has read them.
package memoryos.skills["mail.send"]

import data.memoryos.groups
import data.memoryos.library.arguments
import data.memoryos.library.rates
import data.memoryos.organisation
import data.memoryos.subjects

visible if subjects.known

# Every recipient is one of the organisation, in a form that a mail program reads in one way only.
to_colleagues if {
	count(arguments.recipients) > 0
	every text in arguments.recipients {
		arguments.is_address(text.value)
		arguments.is_internal(arguments.domain_of(text.value))
	}
}

to_addresses if {
	count(arguments.recipients) > 0
	every text in arguments.recipients {
		arguments.is_address(text.value)
	}
}

allow contains {"code": "mail_to_colleagues", "text": "Every recipient is of the organisation."} if {
	to_colleagues
}

manual_review contains {
	"code": "mail_leaves",
	"text": "A recipient is not of the organisation.",
	"approval": {
		"group": groups["mail.send"].approvers,
		"quorum": organisation.review.quorum,
		"expires_in_s": organisation.review.expires_in_s,
	},
} if {
	to_addresses
	not to_colleagues
}

deny contains {"code": "mail_recipient_unclear", "text": "Who receives the mail is not one plain address each."} if {
	input.purpose == "call"
	not to_addresses
}

deny contains finding if some finding in rates.refusals

obligations contains counted if some counted in rates.obligations
