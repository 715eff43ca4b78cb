"""Keeps the page's list of commands as it is now."""

from __future__ import annotations

from page.session.state import AppState, Change


class PaletteController:
    """Made after all others: what a change leads to is done by the time this follows it."""

    def __init__(self, stage: AppState) -> None:
        self._stage = stage
        self._sent: list[dict[str, object]] = []
        stage.listeners.append(self._follow)

    def _follow(self, change: Change) -> None:
        if change is not Change.INPUTS:  # comes with every key, and changes what no command is
            self.draw()

    def draw(self) -> None:
        found = [command for source in self._stage.commands for command in source()]
        found.sort(key=lambda command: command.late)
        rows = [command.message() for command in found]
        if rows != self._sent:
            self._sent = rows
            self._stage.browser.show(commands=rows)
