"""Tokenizers from files: the kind of a file, and the config and template next to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from webpte.engine.files.json_reader import parse_json
from webpte.engine.open.hub_name import is_hub
from webpte.engine.open.siblings import read_file, read_sibling
from webpte.errors import TextError
from webpte.hub.layouts import ChosenProgram, choose
from webpte.llm.text.template import ChatTemplate
from webpte.llm.text.tiktoken_file import load_tiktoken
from webpte.llm.text.tokenizer import Tokenizer
from webpte.llm.text.tokenizer_json import load_json

_CONFIG, _TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
_ROLES = ("bos", "eos", "pad", "unk", "cls", "sep", "mask")


async def load_tokenizer(
    source: Any,
    *,
    config: Any = None,
    template: str | None = None,
    pattern: str | None = None,
    special_tokens: Sequence[str] | None = None,
    keep: bool = False,
) -> Tokenizer:
    """Load a `tokenizer.json`, or a tiktoken file such as the `tokenizer.model` of Llama 3.

    source    bytes, a path, in the browser also a URL (str) or a Blob; or the content as a dict.
              Of "hf:OWNER/NAME" in the Hugging Face Hub it is the tokenizer of the program that
              `webpte.load` takes of this name
    config    its tokenizer_config.json, given likewise: it names the special tokens, and has the
              chat template. None takes the file next to the source, if it exists.
    template  a chat template in place of the config's
    pattern, special_tokens   for a tiktoken file other than Llama 3's
    keep      in the browser: keep files that come from URLs in `webpte.library`, as `webpte.load`
    """
    source = await choose(source, keep) if is_hub(source) else source
    data, name = await _read(source, keep)  # first: no other file is read if it is missing
    settings = await _settings(source, config, keep)
    special = _special(settings)
    if template is None:
        template = _template_of(settings) or await _read_sibling(source, _TEMPLATE, keep)
    tokenizer: Tokenizer
    if data.lstrip()[:1] == b"{":
        tokenizer = await load_json(_text(data, name), name, special)
    else:
        tokenizer = await load_tiktoken(data, name, special, pattern, special_tokens)
    if template is not None:
        tokenizer.template = await ChatTemplate.load(
            template, tokenizer.special, name=f"the chat template of {name}"
        )
    return tokenizer


async def _settings(source: Any, config: Any, keep: bool) -> Mapping[str, Any]:
    if config is None:
        text, name = await _read_sibling(source, _CONFIG, keep), _CONFIG
        if text is None:
            return {}
    elif isinstance(config, Mapping):
        return config
    else:
        data, name = await _read(config, keep)
        text = _text(data, name)
    settings = parse_json(text, name, TextError, not_finite=True)
    if not isinstance(settings, dict):
        raise TextError(f"{name} is not a tokenizer_config.json: it is not a table")
    return settings


def _special(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return special tokens by role; in the file each is a string or a table with `content`."""
    found = {}
    for role in _ROLES:
        token = settings.get(f"{role}_token")
        if isinstance(token, Mapping):
            token = token.get("content")
        if isinstance(token, str):
            found[f"{role}_token"] = token
    return found


def _template_of(settings: Mapping[str, Any]) -> str | None:
    """Return the chat template; among several by name, the template `default`."""
    template = settings.get("chat_template")
    if isinstance(template, list):
        if not all(isinstance(entry, Mapping) for entry in template):
            raise TextError(f"{_CONFIG}: `chat_template` is a list, but not of tables")
        template = next((e.get("template") for e in template if e.get("name") == "default"), None)
    if template is not None and not isinstance(template, str):
        raise TextError(f"{_CONFIG}: `chat_template` is neither a text nor a list of named texts")
    return template


async def _read(source: Any, keep: bool) -> tuple[bytes, str]:
    if isinstance(source, Mapping):
        return json.dumps(source).encode(), "tokenizer.json"
    if isinstance(source, ChosenProgram):
        return await source.tokenizer()
    return await read_file(source, keep)


async def _read_sibling(source: Any, name: str, keep: bool) -> str | None:
    """Read a file in the same folder; return None if it is missing."""
    data = await read_sibling(source, name, keep)
    return None if data is None else _text(data, name)


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(f"{name} is not UTF-8: {error}") from error
