"""The tabs: which views there are, which is in front, and when a panel is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from page.browser import Message
from page.markup import h, render
from page.stage import Change, Stage
from page.view import Need, Panel, View

HOME = "run"


class ViewDesk:
    """A panel that is not in front is drawn when it gets there, if what it follows has changed."""

    def __init__(self, stage: Stage, views: Sequence[View]) -> None:
        self._stage = stage
        self._panels = {view.name: view.make(view, stage) for view in views}
        self._stale = set(self._panels)
        self._told: dict[str, Need | None] = {}  # what each said to be missing, when it was drawn
        self._tabs: list[str] = []
        stage.front = HOME
        stage.listeners.append(self._follow)

    def start(self) -> None:
        """The empty panels, once; that of the first view is in the page already."""
        views = [panel.view for panel in self._panels.values() if panel.view.name != HOME]
        shells = [
            h(
                "div",
                id=view.panel_id,
                class_=f"view view-{view.name}",
                role="tabpanel",
                aria_labelledby=f"tab-{view.name}",
                tabindex="0",
                hidden=True,
            )
            for view in views
        ]
        styles = [view.name for view in views if view.style]
        self._stage.browser.show(styles=styles, html={"panels": render(shells)})
        self._draw_tabs()

    def panel(self, name: str) -> Panel | None:
        return self._panels.get(name)

    def taker(self, name: str) -> Panel | None:
        """Of a dropped file."""
        return next((panel for panel in self._panels.values() if panel.takes(name)), None)

    async def take(self, panel: Panel, files: Sequence[Any]) -> None:
        """Files for a view, which comes to the front."""
        missing = panel.view.missing(self._stage)
        if missing is not None:
            names = ", ".join(self._stage.browser.source(file).name for file in files)
            raise ValueError(f"{names} is for the view “{panel.view.title}”. {missing.text}")
        self.bring_to_front(panel.view.name)
        await panel.take(files)

    def on_view(self, message: Message) -> None:
        """A tab was chosen: the page shows its panel already."""
        self.bring_to_front(str(message["name"]), told=True)

    def bring_to_front(self, name: str, told: bool = False) -> None:
        """`told`: the page knows. A view that has no tab (any more) is not brought anywhere."""
        if name not in self._tabs:
            name, told = HOME, False
        moved, self._stage.front = name != self._stage.front, name
        if not told:
            self._stage.browser.show(front=name)
        self._draw_front()
        if moved:
            self._stage.announce(Change.VIEW)

    def _follow(self, change: Change) -> None:
        for panel in self._panels.values():
            if change in panel.view.follows:
                self._stale.add(panel.view.name)
            if change is Change.SESSION:
                panel.end_work()
                self._safely(panel.forget, panel.view)
        self._draw_tabs()
        self._draw_front()

    def _draw_tabs(self) -> None:
        views = [p.view for p in self._panels.values() if p.view.has_tab(self._stage)]
        names = [view.name for view in views]
        if names != self._tabs:
            self._tabs = names
            self._stage.browser.show(tabs=[[view.name, view.title] for view in views])
        if self._stage.front not in names:
            self.bring_to_front(HOME)

    def _draw_front(self) -> None:
        name, panel = self._stage.front, self._panels[self._stage.front]
        missing = panel.view.missing(self._stage)
        if name not in self._stale and self._told.get(name) is missing:
            return
        self._stale.discard(name)
        self._told[name] = missing
        if missing is None:
            self._safely(panel.draw, panel.view)
        else:
            panel.show(h("p", missing.text, class_="card soft"))

    def _safely(self, step: Callable[[], None], view: View) -> None:
        """A view that fails is told of, and is nobody else's trouble."""
        try:
            step()
        except Exception as error:
            self._stage.show_error(error, f"drawing the view “{view.title}”")
