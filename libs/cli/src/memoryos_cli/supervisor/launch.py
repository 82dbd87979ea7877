"""Promise to die with the parent, then become the program given.

Run as a file by its path (`python -I -S launch.py PARENT_PID -- argv…`), so that
it imports nothing of ours and is gone in some 20 ms: the process that the
supervisor started *is* the program afterwards. A separate program rather than
`preexec_fn`, which is unsafe in a process with threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, separator, *argv = sys.argv[1:]
    if separator != "--" or not argv:
        sys.exit("usage: launch.py PARENT_PID -- argv…")
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(parent):  # the parent ended before the promise was made
        sys.exit(1)
    # The supervisor may ignore or block signals for itself: the program starts with the defaults.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    os.umask(0o077)
    os.execvp(argv[0], argv)  # noqa: S606 - becoming the program is what this file is for


main()
