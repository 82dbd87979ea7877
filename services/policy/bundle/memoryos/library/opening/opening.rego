# A new skill only reads until a person has opened it for writing (mos skill accept --open).
package memoryos.library.opening

refusals contains {"code": "skill_not_opened", "text": "Nobody has opened this skill for writing."} if {
	not readable
}

readable if input.action.effect_class == "read"

readable if input.action.opened == true
