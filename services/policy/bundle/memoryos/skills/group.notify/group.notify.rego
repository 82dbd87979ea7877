# Telling the work group something: people of it read it at once, so it is bounded by a rate and not by a review.
# The robot knows no users: memoryos.organisation.service_account_skills lets this skill have one account.
package memoryos.skills["group.notify"]

import data.memoryos.library.arguments
import data.memoryos.library.rates
import data.memoryos.subjects

visible if subjects.known

# Links lead people somewhere with the word of the organisation behind them.
leads_elsewhere if {
	some text in arguments.texts
	some host in arguments.hosts(text.value)
	not arguments.is_internal(host)
}

allow contains {"code": "group_told", "text": "The work group may be told."} if {
	input.action.egress == "internal"
	input.args.text != ""
	not leads_elsewhere
}

deny contains {"code": "group_link", "text": "The message leads to a place outside of the organisation."} if {
	leads_elsewhere
}

deny contains finding if some finding in rates.refusals

obligations contains counted if some counted in rates.obligations
