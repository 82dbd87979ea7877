# Who may ask OPA itself what. Kept apart from the decision bundle, whose root
# is memoryos: no published bundle can widen it.
package system.authz

default allow := false

# Health tells nothing but that OPA is up.
allow if {
	input.method == "GET"
	input.path == ["health"]
	count(input.params) == 0
}

# The one decision, asked the one way, by the bearer of the token.
allow if {
	input.method == "POST"
	input.path == ["v1", "data", "memoryos", "main", "decision"]
	input.params == {"strict-builtin-errors": ["true"], "provenance": ["true"]}
	crypto.sha256(input.identity) == data.system.opa.token_sha256
}
