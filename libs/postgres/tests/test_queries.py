import pytest
from memoryos_postgres.queries import QueriesInvalid, parse


def test_statements_by_name():
    found = parse("-- about this file\n\n-- name: one\nSELECT 1;\n\n-- name: two\n-- why\nSELECT 2\n")
    assert dict(found) == {"one": "SELECT 1", "two": "-- why\nSELECT 2"}


@pytest.mark.parametrize(
    "text", ["SELECT 1;\n-- name: a\nSELECT 1", "-- name: a\nSELECT 1\n-- name: a\nSELECT 2", "-- name: A b\nSELECT 1"]
)
def test_malformed_files(text):
    with pytest.raises(QueriesInvalid):
        parse(text)
