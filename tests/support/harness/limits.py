"""How long tests wait for what should happen: the one place with such numbers.

A limit only ends what would never end. None of them says that something is fast: the machine may
be busy with other things, and be `SLOWDOWN` times slower than an idle one with two cores, for which
the seconds below are given.
"""

from __future__ import annotations

SLOWDOWN = 100

# A call of Python in the harness page: seconds without any sign of life, see
# webpte_host.harness.watchdog.
CALL_SECONDS = 15 * SLOWDOWN
# A page starts its interpreter and loads its packages.
START_MS = 15 * SLOWDOWN * 1000
# The page shows what it was asked for.
EXPECT_MS = 3 * SLOWDOWN * 1000
# Something that a browser does by itself, without Python.
BROWSER_MS = 1 * SLOWDOWN * 1000
# A process starts and does one small thing, or ends.
PROCESS_SECONDS = 3 * SLOWDOWN
# A server on this machine answers.
SOCKET_SECONDS = 1 * SLOWDOWN
# What a page that hangs is given: short, because the tests of that wait for all of it, and yet
# enough for a page that is well to show a sign of life.
HANG_SECONDS = 5
# A task of the page itself on the main thread. It takes a few milliseconds on an idle machine; if
# Python ran there, it would be seconds.
LONG_TASK_MS = 25 * SLOWDOWN
