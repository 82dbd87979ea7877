# Working hours, by the clock of the policy service and in the time zone of data.memoryos.organisation.hours[name]:
# {"time_zone", "days", "from": "08:00", "until": "18:00", "closed_dates": ["2026-10-01"]}.
package memoryos.library.hours

import data.memoryos.organisation

now := time.parse_rfc3339_ns(input.context.time)

open(name) if {
	hours := organisation.hours[name]
	time.weekday([now, hours.time_zone]) in hours.days
	not date_in(hours.time_zone) in hours.closed_dates
	minute := minute_of_day(hours.time_zone)
	minute >= minutes(hours.from)
	minute < minutes(hours.until)
}

date_in(zone) := sprintf("%04d-%02d-%02d", time.date([now, zone]))

minute_of_day(zone) := (clock[0] * 60) + clock[1] if clock := time.clock([now, zone])

minutes(text) := (to_number(parts[0]) * 60) + to_number(parts[1]) if parts := split(text, ":")

# Refuses a call outside of the hours of this name, and when there are none.
refusals(name) := set() if {
	open(name)
} else := {{"code": "outside_hours", "text": "This is done within working hours only."}}
