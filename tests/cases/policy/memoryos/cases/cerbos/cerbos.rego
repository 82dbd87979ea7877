# Resource policies as data: data.memoryos.cases.cerbos_policies[step][kind] is a list of {"actions", "roles",
# "derived_roles", "condition"}, and data.memoryos.cases.cerbos_roles[step] has the derived roles. Roles come as groups
# of the user; step, kind and action are the name of the skill, cerbos.STEP.KIND.ACTION.
package memoryos.cases.cerbos

import data.memoryos.cases.cerbos_policies
import data.memoryos.cases.cerbos_roles

parts := split(input.action.skill, ".")

step := parts[1]

operation := parts[3]

rules := cerbos_policies[step][parts[2]]

allow contains {"code": "resource_rule", "text": "A rule of the resource policy allows it."} if {
	some rule in rules
	covers(rule.actions)
	holds(rule)
	met(rule.condition)
}

covers(actions) if "*" in actions

covers(actions) if operation in actions

holds(rule) if {
	some role in rule.roles
	role in input.subject.groups
}

holds(rule) if {
	some name in rule.derived_roles
	derived := cerbos_roles[step][name]
	some role in derived.parents
	role in input.subject.groups
	met(derived.condition)
}

met(condition) if condition == null

met(condition) if value(condition.left) == value(condition.right)

value(operand) := operand.literal if "literal" in object.keys(operand)

value(operand) := input.resource.properties[operand.property]

value(operand) := input.resource.id if operand.is == "resource_id"

value(operand) := input.subject.user if operand.is == "principal_id"
