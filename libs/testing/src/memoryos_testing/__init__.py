"""Crash points, real servers, clocks and contract suites for tests."""
