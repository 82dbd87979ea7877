"""How an agent gets from the question to the answer: pure functions of the journal, one file each."""
