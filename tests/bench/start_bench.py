"""Times the start of the page: the first visit, and those after it.

    PYTHONPATH=pysrc:tests .webpte/venv/bin/python -m bench.start_bench [ROUNDS] [--rate MBIT]

Each round starts with an empty browser profile. A visit lasts from the address to "ready"; it
prints seconds of wall clock and of CPU time, of all the browser's processes. The browser is closed
between visits. `--rate` simulates a network of so many megabits per second, with a latency of
20 ms.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import BrowserContext, BrowserType, sync_playwright

from webpte_host.serving.server import Site
from webpte_host.setup import chromium
from webpte_host.setup.runtime import ensure_runtime

VISITS = 3
SETTLE_SECONDS = 12  # after "ready", the browser stores compiled code in the background
LATENCY_MS = 20
_TICKS = os.sysconf("SC_CLK_TCK")

Visit = tuple[float, float]  # seconds of wall clock and of CPU time

# Polling would slow the start down, by a tenth on two cores.
READY = """new Promise((resolve, reject) => {
  const page = document.documentElement;
  const look = () => {
    if (page.dataset.state === "ready") resolve();
    if (page.dataset.state === "failed") reject(new Error(page.innerText));
  };
  new MutationObserver(look).observe(page, { attributeFilter: ["data-state"] });
  look();
})"""


def processor_seconds(profile: Path) -> float:
    """Return the CPU time of the processes with this profile, and of their descendants."""
    parents, spent, ours = {}, {}, set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(") ")[2].split()
            command = (place / "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        number = int(place.name)
        parents[number], spent[number] = int(fields[1]), sum(map(int, fields[11:15]))
        if str(profile).encode() in command:
            ours.add(number)
    for number in parents:
        line = [number]
        while line[-1] in parents and line[-1] not in ours:
            line.append(parents[line[-1]])
        if line[-1] in ours:
            ours.update(line)
    return sum(spent[number] for number in ours) / _TICKS


def slow_down(context: BrowserContext, megabits: float) -> None:
    session = context.new_cdp_session(context.pages[0])
    session.send("Network.enable")
    speed = {"downloadThroughput": megabits * 1e6 / 8, "uploadThroughput": -1}
    session.send(
        "Network.emulateNetworkConditions", {**speed, "offline": False, "latency": LATENCY_MS}
    )


def visit(kind: BrowserType, profile: Path, site: Site, megabits: float | None) -> Visit:
    context = kind.launch_persistent_context(profile, **chromium.launch_options())
    page = context.pages[0]
    if megabits:
        slow_down(context, megabits)
    before, started = processor_seconds(profile), time.perf_counter()
    page.goto(site.url)
    page.evaluate(READY)
    wall, spent = time.perf_counter() - started, processor_seconds(profile) - before
    page.wait_for_timeout(SETTLE_SECONDS * 1000)
    context.close()
    return wall, spent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("--rate", type=float)
    arguments = parser.parse_args()
    ensure_runtime()
    visits: list[list[Visit]] = []
    with sync_playwright() as playwright, Site() as site:
        for number in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as folder:
                row = [
                    visit(playwright.chromium, Path(folder), site, arguments.rate)
                    for _ in range(VISITS)
                ]
            visits.append(row)
            print(
                number + 1,
                *(f"{wall:6.2f} s {spent:6.2f} s cpu" for wall, spent in row),
                flush=True,
            )
    for index in range(1, VISITS):
        wall, spent = (median(row[index][k] / row[0][k] for row in visits) for k in (0, 1))
        print(f"visit {index + 1} to the first: {wall:.2f} of the time, {spent:.2f} of the work")


if __name__ == "__main__":
    main()
