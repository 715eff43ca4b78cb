"""The tabs: which views there are, which is in front, and when a panel is drawn."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from page.browser import FilesError, Message
from page.core.palette import Command
from page.core.state import HOME, AppState, Change
from page.shared.html.empty import empty_view
from page.shared.html.markup import Html, h, render
from page.views.view import Need, Panel, View


class ViewController:
    """The tabs and panels; a panel in the background is drawn when it comes to the front."""

    def __init__(
        self, state: AppState, views: Sequence[View], problems: Mapping[str, Exception]
    ) -> None:
        """Build the panels; `problems` of views, by module, are shown once the page has started."""
        self._state = state
        self._problems = dict(problems)
        self._panels: dict[str, Panel] = {}
        for view in views:
            try:
                self._panels[view.name] = view.make(view, state)
            except Exception as error:
                self._problems[view.name] = error
        if HOME not in self._panels:  # the page does not work without it
            raise self._problems.get(HOME) or ValueError(f"there is no view {HOME!r}")
        self._stale = set(self._panels)
        self._drawn_need: dict[str, Need | None] = {}  # the missing need that was drawn, by view
        self._tabs: list[str] = []
        self._program = ""  # the address or name of the program that was opened last
        state.front = HOME
        state.follow(self._follow, *Change)
        state.commands.append(self._commands)

    def start(self) -> None:
        """Create the empty panels; the panel of the first view is in the page already."""
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
        self._state.browser.show(styles=styles, html={"panels": render(shells)})
        self._draw_tabs()
        if self._problems:
            self._tell_problems()

    def _tell_problems(self) -> None:
        """Show views that failed to load, until the page is reloaded."""
        told = [
            h(
                "p",
                h("strong", f"views/{name}/panel.py"),
                f" {_last_line(error)}",
                class_="error-message",
            )
            for name, error in self._problems.items()
        ]
        traces = ["".join(traceback.format_exception(error)) for error in self._problems.values()]
        box = h(
            "div",
            told,
            h("p", "Other views still work.", class_="error-hint"),
            h("details", h("summary", "Details"), h("pre", "\n".join(traces), tabindex="0")),
            class_="error",
        )
        self._state.show(view_problems=box)

    def _commands(self) -> Iterator[Command]:
        """Yield commands for the tabs, and commands of views whose needs are met."""
        views = [self._panels[name].view for name in self._tabs]
        for view in views if len(views) > 1 else ():
            yield Command(
                f"Go to {view.title}", press=f"#tab-{view.name}", kind="Views", also=view.also
            )
        for view in views:
            for command in view.commands if view.missing(self._state) is None else ():
                act = f"{view.name}:{command.act}"
                yield replace(command, act=act, view=view.name, kind=command.kind or view.title)

    def panel(self, name: str) -> Panel | None:
        return self._panels.get(name)

    def accepting_panel(self, name: str) -> Panel | None:
        """Return the panel of the view that accepts a dropped file of this name, if any does."""
        return next((panel for panel in self._panels.values() if panel.accepts(name)), None)

    async def accept_files(self, panel: Panel, files: Sequence[Any]) -> None:
        """Pass files to a view, and bring it to the front."""
        missing = panel.view.missing(self._state)
        if missing is not None:
            names = ", ".join(self._state.browser.source(file).name for file in files)
            raise FilesError(f"{names} is for the view “{panel.view.title}”. {missing.text}")
        self.bring_to_front(panel.view.name)
        await panel.accept_files(files)

    def on_view(self, message: Message) -> None:
        """Handle a chosen tab, whose panel the page shows already."""
        self.bring_to_front(str(message["name"]), shown=True)

    def bring_to_front(self, name: str, shown: bool = False) -> None:
        """Bring a view to the front; `shown`: the page shows it already. Views without a tab are
        ignored."""
        if name not in self._tabs:
            name, shown = HOME, False
        moved, self._state.front = name != self._state.front, name
        if not shown:
            self._state.browser.show(front=name)
        self._draw_front()
        if moved:
            self._state.announce(Change.VIEW)

    def _follow(self, change: Change) -> None:
        for panel in self._panels.values():
            if change in panel.view.follows:
                self._stale.add(panel.view.name)
            if change is Change.SESSION:
                panel.end_work()
                self._safely(panel.forget, panel.view)
        if change in (Change.SESSION, Change.METHOD, Change.ADDRESS, Change.COMPILED):
            self._draw_tabs()
        if change is Change.SESSION:
            self._lead()
        self._draw_front()

    def _lead(self) -> None:
        """Bring a view that leads to the front, if another program was opened."""
        session = self._state.session
        before = self._program
        self._program = "" if session is None else session.source.key
        if self._program not in ("", before) and self.leading != HOME:
            self.bring_to_front(self.leading)

    @property
    def leading(self) -> str:
        """The view that a program opens with."""
        session = self._state.session
        task = "" if session is None else session.source.task
        views = [self._panels[name].view for name in self._tabs]
        return next((view.name for view in views if view.leads or task in view.tasks), HOME)

    def _draw_tabs(self) -> None:
        views = [p.view for p in self._panels.values() if p.view.has_tab(self._state)]
        names = [view.name for view in views]
        if names != self._tabs:
            self._tabs = names
            self._state.browser.show(tabs=[[view.name, view.title] for view in views])
        if self._state.front not in names:
            self.bring_to_front(HOME)

    def _draw_front(self) -> None:
        name, panel = self._state.front, self._panels[self._state.front]
        missing = panel.view.missing(self._state) if panel.view.needs else None
        if name not in self._stale and self._drawn_need.get(name) is missing:
            return
        self._stale.discard(name)
        self._drawn_need[name] = missing
        if missing is None:
            self._safely(panel.draw, panel.view)
        else:
            panel.show(_missing_view(panel.view, missing))

    def _safely(self, step: Callable[[], None], view: View) -> None:
        """Call a view's method; show its error, so that nothing else fails."""
        try:
            step()
        except Exception as error:
            self._state.show_error(error, f"drawing the view “{view.title}”")


def _missing_view(view: View, need: Need) -> Html:
    act, title = need.offer or ("", "")
    button = h("button", title, type="button", class_="primary", data_act=act) if act else None
    return h("div", empty_view(view.name, need.text, button), class_="card missing")


def _last_line(error: Exception) -> str:
    """Return the kind of the error and its message."""
    return traceback.format_exception_only(error)[-1].strip()
