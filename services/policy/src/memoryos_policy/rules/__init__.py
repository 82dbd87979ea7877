"""Rules at rest: checking, testing, trying and explaining a bundle with the opa command."""
