"""Markup of the conversation, its tokens and its figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from page.shared.html.markdown import code_blocks, has_markup, markdown
from page.shared.html.markup import Html, h, render
from page.shared.html.units import count_text, ms_text, plural
from page.shared.outputs.figures import tile
from page.shared.persistence.codec import word_after
from page.views.chat.controls import Act
from page.views.chat.picture_markup import ENLARGED, pictures_view, removable_view
from page.views.chat.pictures import Edit
from page.views.chat.settings import ChatSettings
from page.views.chat.talk import Answer, Talk
from page.views.chat.versions import Message
from webpte.llm.text import Tokenizer

LOG, FIGURES, TOKEN, EDITED = "chat-log", "chat-figures", "chat-token", "chat-edited"
# From what probability on a token is of a level: rare ones stand out.
_LEVELS = (0.05, 0.2, 0.5, 0.9)
_ENDS = {
    "broken off": "stopped",
    "length": "stopped at max tokens",
    "full": "the context is full",
    "stop": "",
}
_WHO = {"user": "You", "assistant": "Model"}


def said_id(line: int) -> str:
    """Return the id of the element that holds the text of a line."""
    return f"chat-said-{line}"


# ---- the conversation


def log_view(
    talk: Talk,
    settings: ChatSettings,
    act: Act,
    questions: Sequence[str],
    *,
    busy: bool,
    streaming: bool,
    editing: Edit | None,
    as_markdown: bool = False,
) -> Html:
    """Return the conversation; `questions` are proposed until something was asked. Answers are
    shown as Markdown, if `as_markdown`."""
    lines = talk.lines
    if streaming and len(lines) in talk.answers:
        lines.append({"role": "assistant", "content": ""})
    shown = [
        _edited(editing, line, act)
        if editing is not None and at == editing.line
        else _line(
            at, line, talk, settings, act, busy, streaming and at == len(lines) - 1, as_markdown
        )
        for at, line in enumerate(lines)
    ]
    if lines and not streaming:
        shown.append(_ways_on(lines, talk, act, busy))
    return h(
        "div",
        shown or _beginning(questions, act, busy),
        id=LOG,
        class_="chat-log",
        role="log",
        aria_live="polite",
        aria_label="Conversation",
        aria_busy="true" if streaming else "false",
        tabindex="0",
    )


def _beginning(questions: Sequence[str], act: Act, busy: bool) -> Html:
    if not questions:
        return h("p", "No messages yet.", class_="soft")
    buttons = [
        h(
            "button",
            question,
            type="button",
            data_act=act("propose"),
            data_text=question,
            aria_disabled="true" if busy else None,
        )
        for question in questions
    ]
    return h("div", h("p", "Try", class_="soft"), buttons, class_="chat-questions")


def _line(
    at: int,
    line: Message,
    talk: Talk,
    settings: ChatSettings,
    act: Act,
    busy: bool,
    streaming: bool,
    as_markdown: bool,
) -> Html:
    answer = talk.answers.get(at) if line["role"] == "assistant" else None
    as_tokens = settings.with_tokens and answer is not None and bool(answer.tokens or streaming)
    said: object = line["content"]
    marked = False
    if as_tokens and answer is not None:
        answer.catch_up()
        said = [answer.follows, *tokens_view(answer, 0)]
    elif as_markdown and not streaming and line["role"] == "assistant":
        marked = has_markup(line["content"])
    if marked:
        said = markdown(line["content"], lambda block: _copy(at, act, block))
    edit = h(
        "button",
        "Edit",
        type="button",
        class_="quiet",
        data_act=act("edit"),
        data_line=at,
        aria_disabled="true" if busy else None,
        aria_label=f"Edit message {at + 1}",
    )
    kind = "chat-said chat-tokens" if as_tokens else "chat-said"
    kind += " chat-markdown" if marked else ""
    return h(
        "article",
        h(
            "div",
            h("h3", _WHO.get(line["role"], line["role"])),
            h(
                "span",
                None if streaming else _versions(at, talk, act, busy),
                None if streaming else _copy(at, act),
                edit,
            ),
            class_="chat-line-head",
        ),
        pictures_view(line.get("pictures", ()), at, act),
        h(
            "div",
            said,
            id=said_id(at),
            class_=f"{kind} streaming" if streaming else kind,
            data_line=at,
            role="group" if as_tokens else None,
            aria_label="Tokens; arrow keys go from one to the next" if as_tokens else None,
        ),
        h("p", answer_text(answer), class_="note", title=f"seed {answer.seed}")
        if answer is not None and answer.ended
        else None,
        id=f"chat-line-{at}",
        class_=f"chat-line chat-{line['role']}",
    )


def _copy(line: int, act: Act, block: int | None = None) -> Html:
    """Return the button that copies a message, or one of its code blocks."""
    what = f"message {line + 1}" if block is None else f"code {block + 1} of message {line + 1}"
    return h(
        "button",
        "Copy",
        type="button",
        class_="quiet",
        data_act=act("copy"),
        data_line=line,
        data_block=block,
        aria_label=f"Copy {what}",
    )


def copied_text(text: str, block: Any | None) -> str:
    """Return the text that a copy button copies: a message, or one of its code blocks."""
    blocks = code_blocks(text) if block is not None else []
    return blocks[min(int(block or 0), len(blocks) - 1)].text if blocks else text


def answer_text(answer: Answer) -> str:
    """Return one line about an answer."""
    told = [plural(len(answer.tokens), "token")]
    if answer.stats.decode_tokens:
        told.append(f"{_speed(answer.stats.decode_tokens_per_second)} tokens/s")
    if answer.stats.dropped:
        left_out = plural(answer.stats.dropped, "old message")
        told.append(f"{left_out} left out because the context was full")
    return " · ".join(filter(None, [*told, _ENDS.get(answer.ended, answer.ended)]))


def _edited(edit: Edit, line: Message, act: Act) -> Html:
    at = edit.line
    saves = "Send" if line["role"] == "user" else "Save"
    return h(
        "form",
        h("label", h("span", "This version is kept", class_="label")),
        removable_view(edit.pictures, act, at),
        # A textarea drops the first line break of its markup.
        h(
            "textarea",
            "\n" + line["content"],
            name="text",
            id=EDITED,
            rows=3,
            aria_label=f"Message {at + 1}",
            data_enter="submit",
        ),
        h(
            "div",
            h("button", saves, type="submit", class_="primary"),
            h("button", "Cancel", type="button", data_act=act("leave")),
            class_="controls",
        ),
        data_act=act("save"),
        data_line=at,
        id=f"chat-line-{at}",
        class_=f"chat-line chat-{line['role']} chat-edit",
    )


def _versions(line: int, talk: Talk, act: Act, busy: bool) -> Html | None:
    """Return the buttons that go from one version of a line to the next; None with one version."""
    versions = talk.versions.get(line)
    if versions is None:
        return None
    ends = {-1: versions.at == 0, 1: versions.at == len(versions.tails) - 1}
    back, on = (
        h("button", sign, type="button", class_="quiet", data_act=act("turn"), data_line=line,
          data_step=step, aria_disabled="true" if busy or ends[step] else None,
          aria_label=f"{name} version of message {line + 1}")
        for step, sign, name in ((-1, "‹", "Previous"), (1, "›", "Next"))
    )  # fmt: skip
    return h("span", back, h("span", versions.text, class_="number"), on, class_="chat-versions")


def _ways_on(lines: Sequence[Message], talk: Talk, act: Act, busy: bool) -> Html:
    """Return the buttons at the end of the conversation; an answer that was stopped before its
    first token has its versions here."""
    ways = {"again": "Answer"} if lines[-1]["role"] == "user" else {"again": "Regenerate"}
    if talk.can_go_on:
        ways["more"] = "Continue"
    buttons = [
        h(
            "button",
            title,
            type="button",
            data_act=act(name),
            aria_disabled="true" if busy else None,
        )
        for name, title in ways.items()
    ]
    return h("div", _versions(len(lines), talk, act, busy), buttons, class_="controls chat-ways")


# ---- tokens


def tokens_view(answer: Answer, start: int) -> list[Html]:
    """Return the tokens from `start` on, each a button that shows more when it has the focus."""
    return [
        h(
            "button",
            _visible(text, answer.tokens[at]),
            type="button",
            class_=f"token level-{_level(answer, at)}",
            data_at=at,
            tabindex="-1" if at else "0",  # one stop for the Tab key; arrows go on from there
            aria_describedby=TOKEN,
        )
        for at, text in enumerate(answer.texts[start:], start)
    ]


def _visible(text: str, token: int) -> str:
    """Return a token's text with visible white space; its id if it has no text."""
    return text.replace("\n", "↵\n").replace("\t", "⇥\t") if text else f"⟨{token}⟩"


def _level(answer: Answer, at: int) -> str:
    told = answer.logprobs[at]
    if told is None:
        return "unknown"
    probability = math.exp(told.logprob)
    return str(sum(probability >= level for level in _LEVELS))


def token_card(answer: Answer, at: int, tokenizer: Tokenizer) -> Html:
    """Return the card of a token: its probability, and the alternatives."""
    before = answer.tokens[at - 1] if at else None
    token = answer.tokens[at]

    def name(one: int) -> Html:
        return h("code", _quoted(word_after(tokenizer, before, one)), class_="name")

    head = h("p", name(token), h("span", f" token {token}", class_="soft"))
    told = answer.logprobs[at]
    if told is None:
        note = "No probabilities: regenerate the answer with Tokens on."
        return render((head, h("p", note, class_="note")))
    listed = [(one.token, one.logprob) for one in told.top]
    if all(one != token for one, _ in listed):
        listed.append((token, told.logprob))
    rows = [
        h(
            "tr",
            h("td", name(one)),
            h("td", one, class_="number"),
            h("td", f"{100 * math.exp(logprob):.1f} %", class_="number"),
            class_="chosen" if one == token else None,
        )
        for one, logprob in listed
    ]
    return render((head, h("table", h("tbody", rows))))


def _quoted(text: str) -> str:
    return text.replace("\n", "↵").replace("\t", "⇥").replace(" ", "␣") or "∅"


# ---- figures


def figures_view(answer: Answer | None, max_context: int | None) -> Html:
    """Return times and speeds of the last answer, and how much of the context is used."""
    if answer is None:
        return render(())
    stats = answer.stats
    first = "…" if answer.first_ms is None else ms_text(answer.first_ms)
    read = plural(stats.prefill_tokens, "token")
    if stats.reused_tokens:
        read += f", {count_text(stats.reused_tokens)} more in the cache"
    steps = f"{plural(stats.decode_tokens, 'token')}, {plural(stats.submissions, 'submission')}"
    if stats.proposed_tokens:
        right, guessed = count_text(stats.accepted_tokens), count_text(stats.proposed_tokens)
        steps += f", {right} of {guessed} drafted tokens accepted"
    tiles = [
        tile("first token", first, "after sending"),
        tile("prefill", f"{_speed(stats.prefill_tokens_per_second)}/s", read),
        tile("decode", f"{_speed(stats.decode_tokens_per_second)}/s", steps),
    ]
    used = f"{count_text(answer.context)} tokens"
    if max_context:
        used = f"{count_text(answer.context)} of {count_text(max_context)}"
        meter = h(
            "meter", min=0, max=max_context, value=answer.context, aria_label="Context in use"
        )
        tiles.append(tile("context", used, meter))
    else:
        tiles.append(tile("context", used, ""))
    return h("div", tiles, class_="tiles")


def _speed(per_second: float) -> str:
    if not per_second:
        return "–"
    return f"{per_second:.0f}" if per_second >= 100 else f"{per_second:.1f}"


def chat_view(
    head: Sequence[Html | None],
    earlier: Html | None,
    log: Html,
    form: Html,
    figures: Html,
    below: Sequence[Html],
    drop: str | None = None,
) -> Html:
    """Return the whole view; `earlier` is the list of other conversations, on the left where
    there is room, and `below` are the settings. `drop` is the act of a file that is dropped onto
    the conversation."""
    return h(
        "section",
        h("div", h("h2", "Chat"), h("div", head, class_="chat-head"), class_="card-head"),
        h(
            "div",
            h("nav", earlier, class_="chat-side", aria_label="Conversations") if earlier else None,
            h(
                "div",
                log,
                form,
                h("div", below, class_="chat-below"),
                h("div", figures, id=FIGURES),
                id="chat-main",
                class_="chat-main",
                data_drop=drop,
            ),
            class_="chat-parts",
        ),
        h("div", id=TOKEN, class_="token-card", role="status", data_keep=True, hidden=True),
        h("dialog", id=ENLARGED, class_="chat-enlarged", data_keep=True, aria_label="Picture"),
        class_="card chat",
    )
