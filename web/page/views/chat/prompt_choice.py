"""The choice of faster prompts, whose numbers are rounded to 8 bits as the weights are."""

from __future__ import annotations

from page.core.session import Session
from page.shared.html.markup import Html, choice, h
from webpte import Options
from webpte.engine.call.options import applied_to

# The operators whose inputs the option rounds.
_ROUNDED = {"et_vk.linear_q4gsw.default", "aten._weight_int8pack_mm.default"}
_FLOATS, _INTEGERS = "", "int8"
_TEXTS = {_FLOATS: "Full", _INTEGERS: "8 bits (faster)"}
_NOTE = (
    "8 bits read long prompts 1.5 times as fast on an NVIDIA H200, and may change answers "
    "slightly. Reloads the model."
)
_NO_USE = " No effect on this device."


def prompt_choice(session: Session) -> Html | None:
    """Return the choice; None for a program whose prompts no option rounds."""
    if not any(_ROUNDED & info.ops.keys() for info in session.methods.values()):
        return None
    target = applied_to(Options(int8_products=True), session.program.device_info).target
    takes_integers = target.int8_products and not target.subgroup_matrices
    return h(
        "div",
        choice("prompt precision", _TEXTS, _INTEGERS if session.source.int8_products else _FLOATS,
               data_act="prompts", id="chat-prompts", aria_describedby="chat-prompts-note"),
        h("p", _NOTE, "" if takes_integers else _NO_USE, class_="note", id="chat-prompts-note"),
        class_="chat-choice",
    )  # fmt: skip
