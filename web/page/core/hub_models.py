"""Language models of the Hugging Face Hub whose programs run here, to download by a click.

Each is opened by its name, as if it had been typed. Sizes and contexts come from the models' cards
in the Hub; a program that needs more memory than the device has asks for a shorter context.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from page.core.state import AppState
from page.shared.html.markup import Html, h
from page.shared.html.units import bytes_text, count_text
from webpte.engine.open.hub_name import parse_name
from webpte.inspection.report import PHONE_BUDGET

_MB = 1_000_000


@dataclass(frozen=True)
class HubModel:
    """A language model: its name in the Hub, the bytes to download, the tokens of its context.

    context  0: its card does not tell
    """

    title: str
    name: str
    size: int
    context: int
    licence: str

    def is_kept(self, kept: Collection[str]) -> bool:
        """Return whether the library has the program, by the addresses of its files."""
        place = parse_name(self.name)
        below = place.root + (f"{place.path}/" if place.path else "")
        return any(one.startswith(below) and one.endswith(".pte") for one in kept)


_OFFICIAL = "hf:executorch-community/{}-ExecuTorch-WebGPU"
_QWEN = "hf:software-mansion/Qwen3-ExecuTorch/{}"
HUB_MODELS = (
    HubModel("Qwen2.5 0.5B Instruct", _OFFICIAL.format("Qwen2.5-0.5B-Instruct"), 297 * _MB, 8192,
             "Apache 2.0"),
    HubModel("Qwen3 0.6B", _OFFICIAL.format("Qwen3-0.6B"), 397 * _MB, 8960, "Apache 2.0"),
    HubModel("Gemma 3 1B Instruct", _OFFICIAL.format("Gemma-3-1B-IT"), 644 * _MB, 0, "Gemma"),
    HubModel("Llama 3.2 1B Instruct", _OFFICIAL.format("Llama-3.2-1B-Instruct"), 710 * _MB, 0,
             "Llama 3.2"),
    HubModel("Qwen3 1.7B", _QWEN.format("1_7b"), 1_290 * _MB, 4096, "Apache 2.0"),
    HubModel("Qwen3 4B", _QWEN.format("4b"), 2_690 * _MB, 4096, "Apache 2.0"),
)  # fmt: skip


def models_view(state: AppState) -> list[Html]:
    """Return the list of models, each with a button, its size, and what speaks against it."""
    return [
        h("p", _device_note(state), class_="note"),
        h("ul", [_row(model, state) for model in HUB_MODELS], class_="kept hub-models"),
    ]


def _device_note(state: AppState) -> str:
    if state.adapter is None or state.adapter.software:
        return "No GPU was found: on the CPU these models take minutes to answer."
    return (
        "From the Hugging Face Hub, kept in the library. A browser does not say how much memory "
        "the GPU has: a model needs its size, and more for its context, which can be shortened."
    )


def _row(model: HubModel, state: AppState) -> Html:
    here = model.is_kept(state.kept)
    facts = [bytes_text(model.size)]
    if model.context:
        facts.append(f"context {count_text(model.context)} tokens")
    facts.append(model.licence)
    if here:
        facts.append("downloaded")
    problem = _problem(model, state, here)
    act = "Open" if here else "Download"
    return h(
        "li",
        h(
            "a",
            model.title,
            href=parse_name(model.name).page,
            target="_blank",
            rel="noopener",
            title=f"{model.name} in the Hugging Face Hub",
        ),
        h(
            "span",
            " · ".join(facts),
            h("span", f" · {problem}", class_="warn") if problem else None,
            class_="soft",
        ),
        h(
            "form",
            h("input", type="hidden", name="url", value=model.name),
            h("button", act, type="submit", class_="quiet", aria_label=f"{act} {model.title}"),
            data_act="open-url",
        ),
    )


def _problem(model: HubModel, state: AppState, here: bool) -> str:
    """Return why the model may not open here; "" if nothing speaks against it."""
    if state.narrow and model.size > PHONE_BUDGET:
        return f"too large for a phone, whose browsers allow about {bytes_text(PHONE_BUDGET)}"
    if not here and state.room is not None and model.size > state.room:
        return f"only {bytes_text(state.room)} of storage left: it would be loaded, not kept"
    return ""
