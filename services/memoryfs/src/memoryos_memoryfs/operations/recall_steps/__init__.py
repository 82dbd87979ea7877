"""The steps of Read, in order: query → candidates of both arms → re-read from the truth → order."""
