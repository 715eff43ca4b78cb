"""The session as a request with curl to `serve.py api`: of a language model, or an encoder."""

from __future__ import annotations

import json
import shlex
from typing import Any

from page.core.abilities import is_language_model, is_sentence_encoder
from page.core.session import Session
from page.shared.inputs.inputs import ScalarInput
from page.views.python.code import question_of, source_of

_SERVER = "http://127.0.0.1:8001/v1"


def is_served(session: Session) -> bool:
    """Tell whether `serve.py api` has an endpoint for a program."""
    return session.can(is_language_model) or session.can(is_sentence_encoder)


def as_curl(session: Session) -> str:
    """Return the commands of the server and of a request."""
    # The server reads files of its machine, and names of the Hub.
    where = source_of(session)
    file = where if where.startswith("hf:") else where.rpartition("/")[2]
    name = file.rpartition("/")[2].removesuffix(".pte")
    if session.can(is_language_model):
        messages = [{"role": "user", "content": _text(session, question_of(session))}]
        path, body = "chat/completions", {"messages": messages, "max_tokens": 100, "stream": True}
    else:
        path, body = "embeddings", {"input": _text(session, "Hello!")}
    request: dict[str, Any] = {"model": name, **body}
    data = shlex.quote(json.dumps(request, ensure_ascii=False))
    return "\n".join(
        (
            f"python3 serve.py api {shlex.quote(f'{name}={file}')}  # in another terminal",
            "",
            f"curl -N {_SERVER}/{path} \\",
            "  -H 'Content-Type: application/json' \\",
            f"  -d {data}",
        )
    )


def _text(session: Session, otherwise: str) -> str:
    """Return the text of an input, if it has one."""
    texts = [one.prompt for one in session.inputs if not isinstance(one, ScalarInput)]
    return next(filter(None, texts), otherwise)
