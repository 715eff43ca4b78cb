"""The choice of the elements of a language model's KV cache, with the memory that each takes."""

from __future__ import annotations

from collections.abc import Mapping

from page.core.session import Session
from page.shared.html.markup import Html, choice, h
from page.shared.html.units import bytes_text
from webpte.llm.cache.pack_cache import kv_cache_bytes

AS_IN_FILE = ""
_BITS = {AS_IN_FILE: "As in the file", "f16": "16 bits", "int8": "8 bits"}
_NOTE = (
    "GPU memory for the conversation. Fewer bits save memory, and may change answers slightly. "
    "Reloads the model."
)


class CacheChoice:
    """The sizes of the open program's KV cache; sizes of a packed cache are known from before."""

    def __init__(self) -> None:
        self._file = ""
        self._sizes: Mapping[str, int] = {}

    def view(self, session: Session) -> Html | None:
        """Return the choice; None for a program whose cache is always as in its file."""
        source = session.source
        file = source.key
        if source.kv_cache is None and file != self._file:
            self._file, self._sizes = file, kv_cache_bytes(session.program)
        sizes = self._sizes if file == self._file else {}
        if not sizes and source.kv_cache is None:
            return None
        options = {
            key: f"{text}: {bytes_text(sizes[key or 'file'])}" if sizes else text
            for key, text in _BITS.items()
        }
        return h(
            "div",
            choice("KV cache", options, source.kv_cache or AS_IN_FILE, data_act="kv-cache",
                   id="chat-cache", aria_describedby="chat-cache-note"),
            h("p", _NOTE, class_="note", id="chat-cache-note"),
            class_="chat-choice",
        )  # fmt: skip
