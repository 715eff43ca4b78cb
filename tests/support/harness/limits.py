"""The time limits of tests, all in one place.

A limit only ends a test that hangs; it does not check speed. The seconds below are for an idle
machine with two cores; a busy one may be `SLOWDOWN` times slower.
"""

from __future__ import annotations

SLOWDOWN = 100

# A call of Python in the harness page: seconds with neither progress nor CPU activity, see
# webpte_host.harness.watchdog.
CALL_SECONDS = 15 * SLOWDOWN
# A page starts its interpreter and loads its packages.
START_MS = 15 * SLOWDOWN * 1000
# The page shows an expected state.
EXPECT_MS = 3 * SLOWDOWN * 1000
# An element with a label that a test names is there: a loaded machine takes six seconds at most.
LABEL_MS = 60 * 1000
# The browser does something without Python.
BROWSER_MS = 1 * SLOWDOWN * 1000
# A process starts and does one small thing, or ends.
PROCESS_SECONDS = 3 * SLOWDOWN
# A server on this machine answers.
SOCKET_SECONDS = 1 * SLOWDOWN
# The limit in tests of pages that hang: short, because these tests wait for all of it, but long
# enough for a healthy page to show activity.
HANG_SECONDS = 5
# A task of the page itself on the main thread. It takes a few milliseconds on an idle machine; if
# Python ran there, it would be seconds.
LONG_TASK_MS = 25 * SLOWDOWN
