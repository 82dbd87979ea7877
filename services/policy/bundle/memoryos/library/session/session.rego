# What a session has seen, and what its user has said in it, against what is to be done now. The facts are
# kept by the services that hand content out; nothing in a request states them.
package memoryos.library.session

import data.memoryos.library.arguments
import data.memoryos.organisation

# Something that nobody vouches for has been read in this session: what is asked now may be its wish.
influenced if input.context.session_facts.untrusted_content == true

touched_personal_data if input.context.session_facts.personal_data == true

writes if input.action.effect_class in {"idempotent", "keyed", "non_idempotent"}

sends if {
	writes
	input.action.egress in {"internal", "external"}
}

default asked := false

# The user has asked for this kind of action, in words of the skill's own file.
asked if input.context.session_facts.asked == true

own_words(text) if text.pointer in input.context.session_facts.said

# A recipient that the user has named, or one of the organisation. Whose name was said can be anybody's address of
# that name: that is enough only where the organisation says so.
known(text) if own_words(text)

known(text) if {
	organisation.names_suffice == true
	text.pointer in input.context.session_facts.named
}

known(text) if {
	arguments.is_address(text.value)
	arguments.is_internal(arguments.domain_of(text.value))
}

known(text) if {
	arguments.is_link(text.value)
	every host in arguments.hosts(text.value) {
		arguments.is_internal(host)
	}
}

leads_out(text) if contains(text.value, "@")

leads_out(text) if count(arguments.hosts(text.value)) > 0

# Within a system only what leads out of it needs a name; elsewhere every recipient does.
strangers contains text if {
	some text in arguments.recipients
	needs_name(text)
	not known(text)
}

needs_name(_) if input.action.egress == "external"

needs_name(text) if leads_out(text)

# Everything that is sent beside its recipients is the user's own words, or a time: it carries nothing else out.
# A call that sends nothing but names its recipients lets them in, and that is no small thing.
only_own_words if {
	count(arguments.contents) > 0
	every text in arguments.contents {
		carries_nothing(text)
	}
}

carries_nothing(text) if own_words(text)

carries_nothing(text) if regex.match(`^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?Z?$`, text.value)

carries_nothing(text) if regex.match(`^\d{2}:\d{2}(?::\d{2})?$`, text.value)

# Reasons for a person to look first, once something untrusted was read.
requests contains finding(
	"untrusted_destructive",
	"Untrusted content was read in this session, and nobody asked for something to be removed.",
) if {
	influenced
	writes
	input.action.destructive == true
	not asked
}

requests contains finding(
	"untrusted_recipient",
	"Untrusted content was read in this session, and the recipient is neither named by the user nor of the organisation.",
) if {
	influenced
	sends
	count(strangers) > 0
	not only_own_words
}

requests contains finding(
	"untrusted_link",
	"Untrusted content was read in this session, and what is sent leads to a place that the user has not named.",
) if {
	influenced
	sends
	some text in arguments.contents
	some host in arguments.hosts(text.value)
	not arguments.is_internal(host)
	not own_words(text)
}

requests contains finding(
	"untrusted_write",
	"Untrusted content was read in this session, and nobody asked for this to be sent out.",
) if {
	influenced
	writes
	input.action.egress == "external"
	count(arguments.recipients) == 0
	not asked
	not only_own_words
}

# Personal data stays within the organisation.
refusals contains finding(
	"personal_data_leaves",
	"Personal data was read in this session; nothing is sent out of the organisation after that.",
) if {
	touched_personal_data
	writes
	input.action.egress == "external"
	not within_organisation
}

within_organisation if {
	count(arguments.recipients) > 0
	every text in arguments.recipients {
		arguments.is_address(text.value)
		arguments.is_internal(arguments.domain_of(text.value))
	}
}

finding(code, text) := {"code": code, "text": text}
