"""Whisper's generation_config.json, made of the tokenizer where a repository lacks it."""

from __future__ import annotations

from typing import Any

from webpte.errors import InputError
from webpte.llm.text import Tokenizer

_START, _END, _NO_TIMES = "<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>"
_TASKS = ("transcribe", "translate")
_ONE_LANGUAGE_END = 50256  # of the vocabulary of English alone; the other has one token more
_LATEST = 50  # timestamps of the first word: a second
_LANGUAGES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th "
    "ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr "
    "pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt "
    "haw ln ha ba jw su yue"
)


def settings_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the settings by a tokenizer's special tokens; InputError if it is not Whisper's."""
    start, end, no_times = (tokenizer.id_of(text) for text in (_START, _END, _NO_TIMES))
    if start is None or end is None or no_times is None:
        raise InputError(
            f"there is no generation_config.json, and the tokenizer is not Whisper's: it has no "
            f"{_START}, {_END} and {_NO_TIMES}"
        )
    languages = {f"<|{name}|>": tokenizer.id_of(f"<|{name}|>") for name in _LANGUAGES.split()}
    tasks = {name: tokenizer.id_of(f"<|{name}|>") for name in _TASKS}
    settings: dict[str, Any] = {
        "eos_token_id": end,
        "decoder_start_token_id": start,
        "no_timestamps_token_id": no_times,
        "max_initial_timestamp_index": _LATEST,
    }
    if end != _ONE_LANGUAGE_END:
        settings["lang_to_id"] = {key: one for key, one in languages.items() if one is not None}
        settings["task_to_id"] = {key: one for key, one in tasks.items() if one is not None}
    return settings
