"""Rules of sessions and tasks, without I/O."""
