"""Become an ordinary user, promise to end with the parent, and exec a program.

Run as a file by its path (`python -I launch.py --uid N --gid N --cwd DIR -- argv…`),
so that it imports nothing of ours and starts in some 20 ms. The process that
the caller started *is* the program afterwards: one pid, a direct child.
A separate program rather than `preexec_fn`, because the parent may have threads.
"""

import argparse
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_CLEAN_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "PGTZ": "UTC"}


def _end_with_parent(sig: int, parent: int) -> None:
    """Ask the kernel to send `sig` when the parent ends; it must come after setuid, which clears it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, sig, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # the parent ended before the promise was made
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--uid", type=int, default=None)
    parser.add_argument("--gid", type=int, default=None)
    parser.add_argument("--cwd", default=None)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("argv", nargs="+")
    options = parser.parse_args()
    if options.cwd is not None:
        os.chdir(options.cwd)
    if options.uid is not None and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(options.gid)
        os.setuid(options.uid)
    os.umask(0o077)
    _end_with_parent(signal.SIGINT, options.parent)
    # A supervisor may have blocked or ignored signals for itself: the program starts with the defaults.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    os.execve(options.argv[0], options.argv, _CLEAN_ENVIRONMENT)  # noqa: S606


main()
