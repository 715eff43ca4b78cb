"""The skeleton view: how often its button was pressed.

SKELETON: the text above describes the view. To make a view, copy this folder and fill in the
places marked SKELETON; docs/inside/extending.md explains every part. The page does not show folders
whose names begin with an underscore.
"""

from __future__ import annotations

from page.browser import Message
from page.core.palette import Command
from page.core.session import Session
from page.core.state import AppState, Change
from page.shared.html.markup import h
from page.shared.html.units import ms_text, plural
from page.views.view import PROGRAM, RUN, Panel, View

# SKELETON: the name is the folder's, in addresses, acts, ids and styles; the order is the place of
# the tab, of which no two views have the same.
NAME, TITLE, ORDER = "skeleton", "Skeleton", 59


class SkeletonPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._pressed = 0  # SKELETON: state of the view between two drawings

    def forget(self) -> None:
        self._pressed = 0  # SKELETON: drop what belongs to the program that was open

    def draw(self) -> None:
        # SKELETON: the whole panel; the page is patched to match it. The needs below are met here.
        count = h("p", f"The button was pressed {plural(self._pressed, 'time')}.", class_="count")
        press = h("button", "Press", type="button", data_act=self.act("press"))
        again = h("button", "Run again", type="button", data_act=self.act("again"))
        buttons = h("div", press, again, class_="controls")
        self.show(h("section", h("h2", TITLE), count, buttons, class_="card"))

    # ---- acts: SKELETON: `data_act=self.act("press")` calls `on_press`, which may be `async`

    def on_press(self, message: Message) -> None:
        self._pressed += 1
        self.draw()

    async def on_again(self, message: Message) -> None:
        """Run the program with its inputs: work on a program goes through `state.do`."""
        session = self.state.idle_session()
        if session is not None:
            await self.state.do(session, self._run_again(session), "running again")

    async def _run_again(self, session: Session) -> None:
        arrays = [one.array() for one in session.inputs]
        await session.runner.once(session.program, session.method, arrays, lambda *progress: None)
        session.count_run(session.method, arrays)
        self.state.tell(f"Run again in {ms_text(session.runner.timing.last or 0)}")


# SKELETON: without PROGRAM there is no tab; of the other needs, an unmet need is shown in
# place of the panel. `follows` are the changes after which it is drawn again; `commands` are rows
# of the palette.
VIEW = View(
    NAME,
    TITLE,
    ORDER,
    make=SkeletonPanel,
    needs=(PROGRAM, RUN),
    follows=(Change.SESSION, Change.METHOD, Change.RESULTS),
    commands=(Command("Press the button", "press"),),
)
