"""The task of a program that hears or speaks, with the files beside it."""

from __future__ import annotations

from collections.abc import Mapping

from page.browser import Browser
from page.core.session import Session
from page.core.task_files import bind_task
from webpte import MethodInfo
from webpte.engine.call.info import TensorInfo
from webpte.tasks.sound.speech.ctc import hears_letters
from webpte.tasks.sound.speech_recognition import SpeechRecognition
from webpte.tasks.sound.text_to_speech import TextToSpeech
from webpte.tasks.task import Task

Methods = Mapping[str, MethodInfo]


def hears(methods: Methods) -> bool:
    """Tell whether a program turns sounds into text: an encoder and a decoder, or letters."""
    if hears_letters(methods):
        return True
    decodes = any("decode" in name for name, info in methods.items() if not info.is_constant)
    first = next((name for name in ("mel", "encoder", "encode") if name in methods), "")
    return decodes and _first(methods, first) in ((3, "float"), (2, "float"), (1, "float"))


def speaks(methods: Methods) -> bool:
    """Tell whether a program turns tokens into samples: an encoder of texts, and a decoder."""
    return _first(methods, "text_encoder") == (2, "int") and _first(methods, "decoder") == (
        3,
        "float",
    )


def _first(methods: Methods, name: str) -> tuple[int, str] | None:
    """Return the rank and the kind of a method's first input."""
    info = methods.get(name)
    given = info.inputs[0] if info is not None and info.inputs else None
    if not isinstance(given, TensorInfo):
        return None
    return len(given.shape), given.dtype.rstrip("0123456789")


async def open_task(session: Session, browser: Browser) -> Task:
    """Open the task of a session's program; raise SourceError if files of it are missing."""
    kind: type[Task] = SpeechRecognition if hears(session.methods) else TextToSpeech
    return await bind_task(kind.name, session, browser)
