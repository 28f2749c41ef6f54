"""The exit codes of rtj-run and of ranks, as docs/formats.md has them."""

from __future__ import annotations

FINISHED = 0
# Of a rank whose attempt failed for a reason that is not its own.
FAILED = 1
YIELDED = 75
NOT_SERVICED = 76
RESTORE_FAILED = 77
# rtj-run itself: wrong variables or options (sysexits' EX_USAGE), and a command that is not there (the shell's).
USAGE = 64
CANNOT_START = 127
