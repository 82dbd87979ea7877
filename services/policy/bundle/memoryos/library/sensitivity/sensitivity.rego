# How sensitive a record is, against the clearance of the subject, and whether it may leave. The system that keeps the
# record says it (resource.properties.sensitivity: public, internal, confidential, secret); unknown is the highest.
package memoryos.library.sensitivity

import data.memoryos.organisation

highest := max([level | some level in organisation.clearance_of])

level := organisation.clearance_of[input.resource.properties.sensitivity] if {
	is_string(input.resource.properties.sensitivity)
} else := highest

default cleared := false

cleared if input.subject.clearance >= level

refusals contains {"code": "clearance_too_low", "text": "The record is more sensitive than the subject may see."} if {
	input.purpose == "call"
	not cleared
}

# Only what is public goes out of the organisation.
refusals contains {"code": "sensitive_leaves", "text": "A record that is not public does not leave the organisation."} if {
	input.purpose == "call"
	input.action.egress == "external"
	level > organisation.clearance_of.public
}
