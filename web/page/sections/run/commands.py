"""Commands of the palette that run the open program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from page.core.palette import Command
from page.core.session import Session

_GROUP = "Run"


def run_commands(
    session: Session, devices: Mapping[str, str], *, checks: bool, profiles: bool
) -> Iterator[Command]:
    """Yield the runs that are possible; `checks` and `profiles` say whether two of them are."""
    if session.runner.busy:
        if session.runner.can_stop:
            yield Command(f"Cancel {session.runner.doing}", "cancel", kind=_GROUP, also="stop")
        return
    yield Command("Run", press="#run-form", kind=_GROUP, also="start execute", keys="Ctrl ⏎")
    yield Command("Benchmark", "benchmark", view="run", kind=_GROUP, also="time perf speed")
    if checks:
        also = "check verify reference accuracy"
        yield Command("Compare with NumPy", "check", view="run", kind=_GROUP, also=also)
    if profiles:
        also = "perf speed slow time"
        yield Command("Profile kernels", "profile", view="run", kind=_GROUP, also=also)
    for device, name in devices.items():
        if device != session.device:
            more, also = {"value": device}, "device cpu gpu backend"
            yield Command(f"Run on {name}", "device", more, kind=_GROUP, also=also)
