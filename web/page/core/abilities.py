"""The abilities of a program, by which views know whether it is for them.

`Session.can` finds each of them out once for a program and its method.
"""

from __future__ import annotations

from page.core.session import Session
from webpte.errors import InputError
from webpte.llm import Generator
from webpte.llm.text import encodes_sentences
from webpte.tasks import names
from webpte.tasks.retrieval import encodes_texts

# A program of another task may have the form of an encoder: one for gaps, say. Cards may
# describe a task in other words.
_OF_OTHERS = frozenset(names()) - {"feature-extraction", "retrieval"}


def is_language_model(session: Session) -> bool:
    """Tell whether a program generates text: whether a `Generator` takes it."""
    try:
        Generator(session.program)
    except InputError:
        return False
    return True


def is_sentence_encoder(session: Session) -> bool:
    """Tell whether a program makes vectors of sentences."""
    return encodes_sentences(session.methods)


def is_text_encoder(session: Session) -> bool:
    """Tell whether a program makes vectors of texts, and is of no other task."""
    return session.source.task not in _OF_OTHERS and encodes_texts(session.methods)
