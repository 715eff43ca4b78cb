"""Markup of the pictures of a conversation, and of pictures that go with the next message."""

from __future__ import annotations

from collections.abc import Sequence

from page.shared.html.markup import Html, h, render
from page.views.chat.controls import Act
from page.views.chat.pictures import Attachments, ChatPicture

ENLARGED = "chat-enlarged"


def pictures_view(pictures: Sequence[ChatPicture], line: int, act: Act) -> Html | None:
    """Return the pictures of a message; each is a button that shows it in full size."""
    if not pictures:
        return None
    shown = [
        h(
            "figure",
            _button(picture, line, at, act) if picture.small else None,
            h("figcaption", _caption(picture), class_="note") if picture.note else None,
        )
        for at, picture in enumerate(pictures)
    ]
    return h("div", shown, class_="chat-pictures")


def _button(picture: ChatPicture, line: int, at: int, act: Act) -> Html:
    return h(
        "button",
        h("img", src=picture.small, alt=f"Picture {picture.name}"),
        type="button",
        data_act=act("enlarge"),
        data_line=line,
        data_at=at,
        title=f"{picture.title}: show it in full size",
    )


def _caption(picture: ChatPicture) -> str:
    return picture.note if picture.small else f"{picture.title}: {picture.note}"


def enlarged(picture: ChatPicture, url: str) -> Html:
    """Return the content of the dialog with a picture in full size."""
    close = h("button", "Close", type="button", class_="quiet")
    told = h("p", picture.title, class_="note")
    return render((h("img", src=url, alt=f"Picture {picture.name}"), h("div", told, close)))


def removable_view(
    pictures: Sequence[ChatPicture], act: Act, line: int | None = None
) -> Html | None:
    """Return pictures with buttons that remove them: of the message `line`, or of the next one."""
    rows = [
        h(
            "li",
            h("img", src=picture.small, alt=f"Picture {picture.name}", title=picture.title)
            if picture.small
            else h("span", _caption(picture), class_="note"),
            h("button", "Remove", type="button", class_="quiet", data_act=act("remove"),
              data_at=at, data_line=line, aria_label=f"Remove {picture.name}"),
        )
        for at, picture in enumerate(pictures)
    ]  # fmt: skip
    if not rows:
        return None
    return h("ul", rows, class_="chat-attached", aria_label="Pictures of the message")


def attached_view(
    attached: Attachments, act: Act, takes_pictures: bool, problem: str
) -> tuple[Html | None, Html | None]:
    """Return the form's part about pictures, above the text and beside its buttons.

    `problem` says why a model that sees takes none.
    """
    if not takes_pictures:
        return h("p", problem, class_="note") if problem else None, None
    above = removable_view(attached.pictures, act)
    chosen = h("input", type="file", accept="image/*", multiple=True, data_act=act("pictures"))
    return above, h("label", "Add picture", chosen, class_="button")
