package memoryos.library.opening_test

import data.memoryos.library.opening
import data.memoryos.testing

refused(changes) := testing.codes(found) if found := opening.refusals with input as testing.with_changes({"action": changes})

test_an_opened_skill_writes if refused({"opened": true}) == set()

test_a_new_one_reads if {
	refused({"opened": false, "effect_class": "read"}) == set()
	refused({"opened": false, "effect_class": "idempotent"}) == {"skill_not_opened"}
	refused({"opened": "true"}) == {"skill_not_opened"}
}
