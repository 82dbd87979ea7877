package system.authz_test

import data.system.authz

asked(changes) := object.union(
	{
		"method": "POST",
		"path": ["v1", "data", "memoryos", "main", "decision"],
		"params": {"strict-builtin-errors": ["true"], "provenance": ["true"]},
		"identity": "right",
	},
	changes,
)

allowed(request) if authz.allow with input as request
	with data.system.opa as {"token_sha256": crypto.sha256("right")}

health := {"method": "GET", "path": ["health"], "params": {}}

test_decision_with_the_token if allowed(asked({}))

test_health_without_a_token if allowed(health)

test_no_or_wrong_token if {
	not allowed(object.remove(asked({}), ["identity"]))
	every token in ["", "wrong", "RIGHT", null] {
		not allowed(asked({"identity": token}))
	}
}

test_no_token_set_up_is_no_entry if {
	not authz.allow with input as asked({})
	not authz.allow with input as asked({"identity": ""})
}

test_other_methods if {
	every method in ["GET", "PUT", "PATCH", "DELETE", "HEAD", "post"] {
		not allowed(asked({"method": method}))
	}
	not allowed(object.union(health, {"method": "POST"}))
}

test_other_paths if {
	every path in [
		[], [""], ["v1"], ["v1", "data"], ["v1", "policies"], ["v1", "policies", "p"], ["v1", "query"], ["v1", "compile"],
		["v1", "config"], ["v1", "data", "memoryos"], ["v1", "data", "memoryos", "main"], ["metrics"], ["health", "live"],
		["v1", "data", "memoryos", "main", "decision", "x"], ["v0", "data", "memoryos", "main", "decision"],
		["v1", "data", "system", "opa"],
	] {
		not allowed(asked({"path": path}))
		not allowed(asked({"path": path, "method": "GET"}))
		not allowed(asked({"path": path, "method": "PUT"}))
	}
}

test_other_parameters if {
	every params in [
		{}, {"explain": ["full"]}, {"strict-builtin-errors": ["false"], "provenance": ["true"]},
		{"strict-builtin-errors": ["true"], "provenance": ["true"], "explain": ["full"]},
		{"strict-builtin-errors": ["true", "false"], "provenance": ["true"]},
	] {
		not authz.allow with input as json.patch(asked({}), [{"op": "replace", "path": "/params", "value": params}])
			with data.system.opa as {"token_sha256": crypto.sha256("right")}
	}
	not allowed(object.union(health, {"params": {"bundles": ["true"]}}))
}
