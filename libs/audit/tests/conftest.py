import pytest
from memoryos_audit.seal_key import PublicSealKeys, SealKey, create_seal_key, public_file
from memoryos_audit.sealer.sealer import Sealer
from memoryos_postgres import roles


@pytest.fixture(scope="session")
def migration_schemas() -> tuple[str, ...]:
    return ("core",)


@pytest.fixture
async def writer(database_factory):
    return await database_factory(roles.MEMORYFS)


@pytest.fixture
async def sealer_db(database_factory):
    return await database_factory(roles.SEALER)


@pytest.fixture
def seal_key_file(tmp_path):
    create_seal_key(tmp_path / "seal.pem")
    return tmp_path / "seal.pem"


@pytest.fixture
def public_keys(seal_key_file):
    return PublicSealKeys.load(public_file(seal_key_file))


@pytest.fixture
def head_file(tmp_path):
    return tmp_path / "head.json"


@pytest.fixture
def sealer(sealer_db, seal_key_file, public_keys, head_file):
    return Sealer(sealer_db, SealKey.load(seal_key_file), public_keys, head_file)
