# Customer service of a shop: a customer looks things up and changes what is its own. Who owns an order says the shop.
package memoryos.cases.taubench

import data.memoryos.library.ownership

allow contains {"code": "readable", "text": "Looking things up changes nothing."} if input.action.effect_class == "read"

allow contains {"code": "own_record", "text": "The record is the customer's own."} if {
	input.action.effect_class != "read"
	ownership.own
}

allow contains {"code": "no_record", "text": "It touches no record."} if {
	input.action.effect_class != "read"
	input.resource.type == "none"
}

deny contains finding if {
	input.action.effect_class != "read"
	input.resource.type != "none"
	some finding in ownership.refusals
}
