import pytest


@pytest.fixture(scope="session")
def migration_schemas() -> tuple[str, ...]:
    return ("core",)
