"""The progress of an opening: its stages, how fast bytes come, and a pause."""

from __future__ import annotations

from collections.abc import Callable

from page.core.state import AppState
from page.core.throttle import Throttle
from page.sections.open.transfer_rate import TransferRate
from page.sections.open.view import progress_view
from webpte import Download

_IN_BYTES = ("fetch", "check", "constants")


class OpeningProgress:
    """A progress function that draws the stages, throttled, while `is_current`."""

    def __init__(
        self, state: AppState, download: Download | None, is_current: Callable[[], bool]
    ) -> None:
        self.download = download
        self._state = state
        self._is_current = is_current
        self._amounts: dict[str, tuple[int, int]] = {}
        self._moving = "fetch"  # the stage that bytes are counted of
        self._throttle, self._rate = Throttle(), TransferRate()

    def __call__(self, stage: str, done: int, total: int) -> None:
        known = self._amounts.get(stage)
        new = known is None or (not known[1] and bool(total))  # its total is told only now
        self._amounts[stage] = (int(done), int(total))
        if stage in _IN_BYTES:
            if stage != self._moving:
                self._rate.restart()
            self._moving = stage
            self._rate.add(int(done))
        if self._throttle.ready(force=new):
            self._draw()

    def toggle_pause(self) -> None:
        """Pause the download, or continue it."""
        if self.download is None:
            return
        if self.download.paused:
            self.download.resume()
        else:
            self.download.pause()
        self._rate.restart()
        self._draw()

    def _draw(self) -> None:
        if not self._is_current():
            return
        done, total = self._amounts.get(self._moving, (0, 0))
        is_fetching = self._moving != "check" and done < total
        paused = self.download.paused if self.download is not None and is_fetching else None
        rate = self._rate.text(total - done) if done < total else ""
        self._state.show(stages=progress_view(self._amounts, rate, paused))
