package memoryos.library.reviews_test

import data.memoryos.library.reviews

test_by_default if {
	found := reviews.by_default("look", "Look.")
	found.approval == {"group": "reviewers", "quorum": 1, "expires_in_s": 900}
}

test_four_eyes if {
	found := reviews.four_eyes("look", "Look.", "finance")
	found == {"code": "look", "text": "Look.", "approval": {"group": "finance", "quorum": 2, "expires_in_s": 900}}
}
