"""Fixtures for every package: real servers on free ports, in folders of their own."""

pytest_plugins = ("memoryos_testing.postgres",)
