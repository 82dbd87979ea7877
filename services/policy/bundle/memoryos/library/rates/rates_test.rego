package memoryos.library.rates_test

import data.memoryos.library.rates
import data.memoryos.testing

limits := {"x.y": {"rates": [
	{"name": "calls", "per": "user", "limit": 5, "window_s": 60},
	{"name": "money", "per": "tenant", "limit": 1000, "window_s": 86400, "amount": "/amount"},
]}}

owed(args) := found if {
	found := rates.obligations with input as testing.with_changes({"args": args}) with data.memoryos.limits as limits
}

refused(args, some_limits) := testing.codes(found) if {
	found := rates.refusals with input as testing.with_changes({"args": args}) with data.memoryos.limits as some_limits
}

test_calls_and_amounts if {
	owed({"amount": 12.5}) == {
		{"kind": "rate_limit", "key": "x.y:calls:user:u1", "limit": 5, "window_s": 60, "cost": 1},
		{"kind": "rate_limit", "key": "x.y:money:tenant", "limit": 1000, "window_s": 86400, "cost": 12.5},
	}
	refused({"amount": 12.5}, limits) == set()
}

test_outside_of_sessions_each_user_has_a_count if {
	per := {"x.y": {"rates": [{"name": "calls", "per": "session", "limit": 5, "window_s": 60}]}}
	expected := {"ses_1": "x.y:calls:session:ses_1", "": "x.y:calls:session:/u1"}
	every session_id, key in expected {
		found := rates.obligations with data.memoryos.limits as per
			with input as testing.with_changes({"context": {"session_id": session_id}})
		{one.key | some one in found} == {key}
	}
}

test_what_cannot_be_counted_is_refused if {
	every args in [{}, {"amount": "5"}, {"amount": 0}, {"amount": -5}] {
		refused(args, limits) == {"rate_not_countable"}
	}
	strange := {"x.y": {"rates": [{"name": "calls", "per": "planet", "limit": 5, "window_s": 60}]}}
	refused({}, strange) == {"rate_not_countable"}
}

test_a_skill_without_rates_owes_nothing if {
	found := rates.obligations with input as testing.call with data.memoryos.limits as {}
	found == set()
}

test_a_listing_owes_nothing if {
	found := rates.obligations with input as testing.with_changes({"purpose": "list"}) with data.memoryos.limits as limits
	found == set()
}
