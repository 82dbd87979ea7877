# Line data of the manufacturing execution system: everyone who may use tools may read it.
package memoryos.skills["mes.takt_time"]

import data.memoryos.subjects

visible if subjects.known

allow contains {"code": "line_data_readable", "text": "Line data is readable for everyone who may use tools."} if {
	input.action.effect_class == "read"
}
