package memoryos.library.hours_test

import data.memoryos.library.hours
import data.memoryos.testing

at(time) := testing.with_changes({"context": {"time": time}})

shanghai := {"office": {
	"time_zone": "Asia/Shanghai", "days": ["Monday", "Wednesday"], "from": "08:00", "until": "18:00",
	"closed_dates": ["2026-03-09"],
}}

refused(time) := testing.codes(found) if {
	found := hours.refusals("office") with input as at(time) with data.memoryos.organisation.hours as shanghai
}

test_within if {
	refused("2026-03-04T00:00:00.000000Z") == set()
	refused("2026-03-04T09:59:59.999999Z") == set()
}

test_before_and_after if {
	refused("2026-03-03T23:59:59Z") == {"outside_hours"}
	refused("2026-03-04T10:00:00Z") == {"outside_hours"}
}

test_the_day_is_that_of_the_zone if {
	refused("2026-03-05T01:00:00Z") == {"outside_hours"}
	refused("2026-03-08T23:00:00Z") == {"outside_hours"}
}

test_closed_dates if refused("2026-03-09T02:00:00Z") == {"outside_hours"}

test_hours_that_nobody_has_set_are_closed if {
	found := hours.refusals("night") with input as at("2026-03-04T02:00:00Z")
	testing.codes(found) == {"outside_hours"}
}
