"""mos: run, inspect and use Memory OS from a terminal."""
