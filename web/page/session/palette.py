"""Commands: what can be done now, by name, in the palette that Ctrl K opens.

Whoever can do something says so in one row: a desk in the function that it adds to
`state.commands`, a view in `commands` of its declaration. The list goes to the page whenever it has
changed, so the palette opens at once, whatever Python is busy with; `palette.js` searches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Command:
    """A row of the palette, and what choosing it does: an act, or the press of a control.

    title  what it does, as on a button
    act    the message that it sends
    more   what else is in that message
    press  instead of an act: the control to press, as a CSS selector; a field gets the focus
    view   the view that comes to the front with it
    kind   a word that tells rows of one title apart, such as "Method"
    keys   that do the same
    late   it takes something away: it comes after all others, so Enter never does it by chance
    """

    title: str
    act: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    press: str = ""
    view: str = ""
    kind: str = ""
    keys: str = ""
    late: bool = False

    def message(self) -> dict[str, object]:
        """As `palette.js` takes it."""
        return {
            "title": self.title,
            "kind": self.kind,
            "keys": self.keys,
            "view": self.view,
            "press": self.press,
            "send": {"act": self.act, **self.more} if self.act else None,
        }


Commands = Callable[[], Iterable[Command]]  # those that can be done as things are now
