"""Commands of the palette that Ctrl K opens.

A controller lists its commands in a function that it adds to `state.commands`, a view in `commands`
of its declaration. They are listed when the palette opens: it shows the last list until the new one
comes, so it opens at once even while Python is busy; `palette.js` searches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Command:
    """A row of the palette: choosing it sends an act, or presses a control.

    title  the text, as on a button
    act    the message that it sends
    more   other fields of that message
    press  instead of an act: the control to press, as a CSS selector; a field gets the focus
    view   the view that comes to the front with it
    kind   the group that it is listed in, such as "Run"
    also   other words that find it, such as "speed"
    keys   the keyboard shortcut
    late   it removes something: it comes after all others, so that Enter never does it by chance
    """

    title: str
    act: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    press: str = ""
    view: str = ""
    kind: str = ""
    also: str = ""
    keys: str = ""
    late: bool = False

    def message(self) -> dict[str, object]:
        """Return the row as `palette.js` takes it."""
        return {
            "title": self.title,
            "kind": self.kind,
            "also": self.also,
            "keys": self.keys,
            "late": self.late,
            "view": self.view,
            "press": self.press,
            "send": {"act": self.act, **self.more} if self.act else None,
        }


Commands = Callable[[], Iterable[Command]]  # the commands that are possible now
