import signal
import subprocess
import sys

import pytest
from memoryos_core import crashpoints

PROGRAM = """
from memoryos_core.crashpoints import arm, crash_point
arm({armed!r})
for turn in range(3):
    crash_point("memoryfs.write.before_commit")
    print(turn, flush=True)
"""


def run(armed):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(armed=armed)], capture_output=True, text=True, timeout=60
    )


def test_an_armed_process_dies_by_sigkill_at_its_turn():
    died = run("memoryfs.write.before_commit:2")
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, "0\n")


def test_an_unarmed_process_lives():
    assert run("").stdout == run("memoryfs.write.after_commit").stdout == "0\n1\n2\n"


def test_an_unknown_point_is_refused():
    with pytest.raises(ValueError, match="unknown crash point"):
        crashpoints.arm("memoryfs.write.somewhere")
