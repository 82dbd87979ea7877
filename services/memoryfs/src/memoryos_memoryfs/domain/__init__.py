"""Rules of memory without I/O."""
