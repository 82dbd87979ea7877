import pytest
from memoryos_postgres.queries import QueriesInvalid, parse, with_parts


def test_statements_by_name():
    found = parse("-- about this file\n\n-- name: one\nSELECT 1;\n\n-- name: two\n-- why\nSELECT 2\n")
    assert dict(found) == {"one": "SELECT 1", "two": "-- why\nSELECT 2"}


@pytest.mark.parametrize(
    "text", ["SELECT 1;\n-- name: a\nSELECT 1", "-- name: a\nSELECT 1\n-- name: a\nSELECT 2", "-- name: A b\nSELECT 1"]
)
def test_malformed_files(text):
    with pytest.raises(QueriesInvalid):
        parse(text)


def test_parts_are_put_in_and_other_marks_are_left():
    parts = parse("-- name: columns\na, b\n-- name: rows\nSELECT /*columns*/ FROM t")
    statements = {"one": "SELECT count(*) FROM (/*rows*/) AS r WHERE /*filter*/", "two": "SELECT /*columns*/ FROM u"}
    assert dict(with_parts(statements, parts)) == {
        "one": "SELECT count(*) FROM (SELECT a, b FROM t) AS r WHERE /*filter*/",
        "two": "SELECT a, b FROM u",
    }
