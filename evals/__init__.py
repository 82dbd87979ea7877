"""Evaluation of recall on real dialogues: `make eval`."""
