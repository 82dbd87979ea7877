package memoryos.library.chain_test

import data.memoryos.library.chain
import data.memoryos.testing

refused(depth, limits) := testing.codes(found) if {
	agents := [name | some number in numbers.range(1, depth); name := sprintf("a%d", [number])]
	found := chain.refusals with input as testing.with_changes({"actor": {"chain": agents}}) with data.memoryos.limits as limits
}

test_for_all_skills if {
	refused(8, {}) == set()
	refused(9, {}) == {"chain_too_deep"}
}

test_for_one_skill if {
	refused(1, {"x.y": {"chain_max": 1}}) == set()
	refused(2, {"x.y": {"chain_max": 1}}) == {"chain_too_deep"}
	refused(9, {"x.y": {"chain_max": 99}}) == {"chain_too_deep"}
}

test_a_chain_that_is_none_is_too_deep if {
	found := chain.refusals with input as object.union(testing.call, {"actor": {"chain": null}})
	testing.codes(found) == {"chain_too_deep"}
}
