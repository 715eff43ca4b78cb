"""Markup of the chat's controls: the form, the settings, the tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from page.core.hub_models import models_view
from page.core.state import AppState
from page.shared.html.markup import Html, choice, h, labelled, marked, problem_note, render
from page.shared.html.units import plural
from page.shared.persistence.codec import CHAT, IDS, TEXT, Codec
from page.views.chat.model_picker import model_picker
from page.views.chat.prompt_choice import prompt_choice
from page.views.chat.settings import GUESSES, LOOKUP, SETTINGS, ChatSettings, Setting

Act = Callable[[str], str]  # the name of a method of the panel -> the act that calls it
FIELD, NUMBERS, REFUSED = "chat-text", "chat-numbers", "chat-refused"
_GUESSES_NOTE = (
    "Drafts tokens from the conversation and verifies several at once. Same text, faster when the "
    "answer repeats earlier text."
)
_PLACEHOLDERS = {
    CHAT: "Ask something",
    TEXT: "Text to continue",
    IDS: "Token ids, such as 1 42 7",
}


def head_view(
    state: AppState, settings: ChatSettings, said: bool, act: Act, busy: bool
) -> list[Html | None]:
    """Return the controls beside the heading; `said`: there is a conversation to export."""
    exports = [
        h("button", f"Export {text}", type="button", class_="quiet", data_act=act("export"),
          data_kind=kind)
        for kind, text in (("md", "Markdown"), ("json", "JSON"))
    ]  # fmt: skip
    return [
        model_picker(state),
        h(
            "button",
            "Tokens",
            type="button",
            class_="quiet",
            data_act=act("tokens"),
            aria_pressed="true" if settings.with_tokens else "false",
            title="Show answers token by token, with alternatives",
        ),
        *(exports if said else []),
        h(
            "button",
            "New conversation",
            type="button",
            class_="quiet",
            data_act=act("clear"),
            aria_disabled="true" if busy else None,
        ),
    ]


def list_view(entries: Sequence[Mapping[str, Any]], act: Act, state: AppState) -> Html | None:
    """Return the earlier conversations; each can be opened, renamed and deleted."""
    if not entries:
        return None
    away = "true" if state.session is not None and state.session.runner.busy else None
    rows = [
        h(
            "li",
            h("button", one["title"], type="button", data_act=act("open"), data_at=at,
              class_="quiet chat-title", title=one["title"],
              aria_label=f"Open “{one['title']}”", aria_disabled=away),
            h("details",
              h("summary", h("span", "⋯", aria_hidden="true"),
                h("span", f"More about “{one['title']}”", class_="unseen")),
              h("input", type="text", value=one["title"], data_act=act("rename"), data_at=at,
                id=f"chat-title-{at}", aria_label=f"Title of conversation {at + 1}",
                maxlength="96", autocomplete="off"),
              h("button", "Delete", type="button", class_="quiet", data_act=act("delete"),
                data_at=at, aria_label=f"Delete “{one['title']}”")),
        )
        for at, one in enumerate(entries)
    ]  # fmt: skip
    return h(
        "details",
        h("summary", f"Conversations ({len(entries)})"),
        h("ul", rows, class_="chat-list"),
        id="chat-list",
        open=not state.narrow,
    )


def form_view(
    codec: Codec,
    settings: ChatSettings,
    act: Act,
    pictures: tuple[Html | None, Html | None],
    *,
    busy: bool,
    streaming: bool,
) -> Html:
    """Return the field of the next message; `pictures` go above it, and beside its buttons."""
    above, beside = pictures
    return h(
        "form",
        above,
        h(
            "div",
            h(
                "textarea",
                id=FIELD,
                name="text",
                rows=2,
                placeholder=_PLACEHOLDERS[codec.kind],
                aria_label="Message",
                data_enter="submit",
                autocomplete="off",
            ),
            h("button", "Stop", type="button", id="chat-stop", data_act=act("stop"))
            if streaming
            else h(
                "button",
                "Send",
                type="submit",
                id="chat-send",
                class_="primary",
                aria_disabled="true" if busy else None,
            ),
            class_="chat-box",
        ),
        h(
            "div",
            beside,
            h("span", "Enter sends, Shift+Enter starts a line", class_="note chat-keys"),
            class_="controls",
        ),
        h("div", _refused_view(settings), id=REFUSED, role="alert"),
        data_act=act("send"),
        class_="chat-form",
    )


def settings_view(settings: ChatSettings, codec: Codec, act: Act, state: AppState) -> Html:
    prompt = h("textarea", "\n" + settings.system, rows=2, data_act=act("system"))
    system = labelled("system prompt", prompt, "chat-system")
    return h(
        "details",
        h("summary", "Settings"),
        system if codec.kind == CHAT else None,
        h("div", _numbers_view(settings, act), id=NUMBERS, class_="controls chat-settings"),
        _guesses_view(settings, act),
        settings.cache.view(state.session) if state.session is not None else None,
        prompt_choice(state.session) if state.session is not None else None,
        id="chat-settings",
    )


def _guesses_view(settings: ChatSettings, act: Act) -> Html:
    """Return the choice of guesses, which make an answer come sooner and do not change it."""
    options = {"": "Off", LOOKUP: "From the conversation"}
    return h(
        "div",
        choice("speculative decoding", options, settings.texts[GUESSES], data_act=act("set"),
               data_name=GUESSES, id="chat-guesses", aria_describedby="chat-guesses-note"),
        h("p", _GUESSES_NOTE, class_="note", id="chat-guesses-note"),
        class_="chat-choice",
    )  # fmt: skip


def problem_views(settings: ChatSettings, act: Act) -> dict[str, Html]:
    """Return the sections that describe problems of the settings: their fields, and the place
    below the message that was not sent because of it."""
    return {NUMBERS: _numbers_view(settings, act), REFUSED: _refused_view(settings)}


def _numbers_view(settings: ChatSettings, act: Act) -> Html:
    problems = settings.problems()
    return render(
        _number_view(one, settings.texts[one.name], problems.get(one.name, ""), act)
        for one in SETTINGS
    )


def _number_view(setting: Setting, text: str, problem: str, act: Act) -> Html:
    """Return the field of a setting; a problem of the setting is shown below it."""
    below = f"chat-{setting.name}-problem"
    field = h(
        "input",
        type="number",
        class_="small",
        value=text,
        step=setting.step,
        min=0,
        data_act=act("set"),
        data_name=setting.name,
        **marked(problem, below),
    )
    return h(
        "div",
        h(
            "label",
            h("span", setting.title, class_="label"),
            field,
            h("span", setting.help, class_="note"),
        ),
        problem_note(problem, below),
    )


def _refused_view(settings: ChatSettings) -> Html:
    problem = next(iter(settings.problems().values()), "") if settings.refused else ""
    return render((h("p", problem, class_="notice notice-bad") if problem else None,))


def more_models_view(state: AppState) -> Html:
    """Return models to download and talk to instead; the conversation stays in the list."""
    return h("details", h("summary", "More models"), models_view(state), id="chat-models")


def tokenizer_view(codec: Codec, act: Act) -> Html:
    """Return the tokenizer's description, and the ways to choose another."""
    size = plural(codec.tokenizer.vocabulary, "token")
    told = {
        CHAT: f"{codec.name}, {size}, with a chat template",
        TEXT: f"{codec.name}, {size}; no chat template, so the model continues a text",
        IDS: "none; type token ids",
    }
    choose = h(
        "label",
        "Choose files",
        h(
            "input",
            type="file",
            accept=".json,.model,.jinja",
            multiple=True,
            data_act=act("tokenizer"),
        ),
        class_="button",
    )
    field = h(
        "input",
        type="text",
        name="url",
        inputmode="url",
        spellcheck="false",
        autocomplete="off",
        placeholder="https://…/tokenizer.json",
        required=True,
    )
    address = h(
        "form",
        labelled("or enter a URL", field, "wide"),
        h("button", "Load", type="submit"),
        data_act=act("tokenizer-url"),
        class_="url",
    )
    return h(
        "details",
        h("summary", f"Tokenizer: {told[codec.kind]}"),
        h("p", codec.note, class_="notice notice-warn") if codec.note else None,
        h(
            "p",
            "The model's tokenizer.json, with the tokenizer_config.json or chat_template.jinja of "
            "its chat template; or a tiktoken file. Files next to the program load automatically.",
            class_="note",
        ),
        h("div", choose, address, class_="controls chat-tokenizer"),
        id="chat-tokenizer",
        open=codec.kind == IDS,
        data_drop=act("tokenizer"),
    )
