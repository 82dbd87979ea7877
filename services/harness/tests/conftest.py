import pytest

from .world import World, make_world, serving


@pytest.fixture(scope="session")
def migration_schemas() -> tuple[str, ...]:
    return ("core", "harness")


@pytest.fixture
async def world(tmp_path, database):
    """A harness server, fakes of its peers over gRPC and a scripted model over HTTP; workers are started by tests."""
    async with make_world(tmp_path, database) as made, serving(made):
        yield made


__all__ = ["World"]
