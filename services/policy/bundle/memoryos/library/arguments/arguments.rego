# What the arguments of a call say, for rules that look at them.
package memoryos.library.arguments

# Every text in the arguments and where it stands: {"pointer": "/to/0", "path": ["to", 0], "value": "…"}.
texts contains {"pointer": pointer(path), "path": path, "value": value} if {
	walk(input.args, [path, value])
	is_string(value)
}

# Those that say who receives what is sent.
recipients contains text if {
	some text in texts
	some pattern in input.action.recipients
	fits(pattern, text.path)
}

# What the arguments send, but for its recipients.
contents := texts - recipients

# The pointer leads to the place; "*" stands for one step of any name.
fits(pattern, path) if {
	parts := split(pattern, "/")
	count(parts) == count(path) + 1
	every at, part in path {
		leads(parts[at + 1], part)
	}
}

leads(wanted, _) if wanted == "*"

leads(wanted, part) if wanted == step(part)

pointer(path) := concat("", [sprintf("/%s", [step(part)]) | some part in path])

# One step of a JSON pointer (RFC 6901).
step(part) := replace(replace(sprintf("%v", [part]), "~", "~0"), "/", "~1")

# A mail address of plain form: one @, and nothing that a mail program reads as something else.
is_address(value) if regex.match(`^[^@\s<>"'(),:;\\]+@[^@\s<>"'(),:;\\/?#]+$`, value)

# Something that leads to a place on a network.
is_link(value) if regex.match(`(?i)^(?:[a-z][a-z0-9+.\-]*://|www\.)\S+$`, value)

# The hosts that a text leads to; what could be read in two ways is no host that anybody knows.
hosts(value) := {host |
	some found in regex.find_n(`(?i)(?:[a-z][a-z0-9+.\-]*://|www\.)[^\s<>"']+`, value, -1)
	host := host_of(found)
}

host_of(link) := lower(authority) if {
	authority := authority_of(link)
	regex.match(`^[A-Za-z0-9.\-]+$`, authority)
} else := ""

authority_of(link) := regex.find_all_string_submatch_n(`(?i)^(?:[a-z][a-z0-9+.\-]*://)?([^/?#]*)`, link, 1)[0][1]

domain_of(address) := lower(regex.replace(address, `^.*@`, ""))

# A domain of the organisation, or one under it.
is_internal(domain) if {
	some own in data.memoryos.organisation.domains
	under(lower(domain), lower(own))
}

under(domain, own) if domain == own

under(domain, own) if endswith(domain, sprintf(".%s", [own]))
