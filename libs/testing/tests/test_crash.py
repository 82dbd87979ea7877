"""The crash driver tells a death at its point from every other end."""

import os
import sys

import pytest
from memoryos_testing.crash import DidNotCrash, run_until_crash

POINT = "memoryfs.write.before_commit"
PROGRAM = """
import os, sys
from memoryos_core.crashpoints import arm, crash_point
arm(os.environ["MEMORYOS_CRASH_POINT"])
print("started", flush=True)
for _ in range(int(sys.argv[1])):
    crash_point("memoryfs.write.before_commit")
    print("passed", flush=True)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "crashing.py").write_text(PROGRAM)
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}


async def test_it_dies_at_the_pass_asked_for(environ):
    output = await run_until_crash("crashing", point=f"{POINT}:3", environ=environ, arguments=["5", "0"])
    assert output.split() == ["started", "passed", "passed"]


@pytest.mark.parametrize("code", ["0", "1"])
async def test_another_end_is_a_failure(environ, code):
    with pytest.raises(DidNotCrash, match=f"ended with {code}"):
        await run_until_crash("crashing", point=POINT, environ=environ, arguments=["0", code])


async def test_an_unknown_point_is_a_failure(environ):
    with pytest.raises(AssertionError, match="unknown crash point"):
        await run_until_crash("crashing", point="nowhere", environ=environ)
