"""Messages of OpenAI's API as chat templates take them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from webpte.errors import InputError
from webpte.json_reader import parse_json
from webpte.openai.values import RequestError

_ROLES = ("system", "developer", "user", "assistant", "tool")
_PICTURE = "image_url"


def template_messages(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the messages with contents as text, and arguments of tool calls as tables.

    A content with pictures is a list of parts: {"type": "text", "text"}, and {"type": "image",
    "image"} with the bytes of a picture's file.
    """
    return [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise RequestError("must be an object", where)
    role = message.get("role")
    if role not in _ROLES:
        raise RequestError(f"must be one of {', '.join(_ROLES)}, not {role!r}", f"{where}.role")
    calls = message.get("tool_calls")
    content = _content(message.get("content"), f"{where}.content", role, bool(calls))
    made: dict[str, Any] = {"role": "system" if role == "developer" else role, "content": content}
    if calls:
        if role != "assistant" or not isinstance(calls, Sequence):
            raise RequestError("they are a list in an assistant's message", f"{where}.tool_calls")
        made["tool_calls"] = [
            _call(call, f"{where}.tool_calls[{index}]") for index, call in enumerate(calls)
        ]
    if role == "tool":
        if not isinstance(message.get("tool_call_id"), str):
            raise RequestError("must be given", f"{where}.tool_call_id")
        made["tool_call_id"] = message["tool_call_id"]
    if isinstance(message.get("name"), str):
        made["name"] = message["name"]
    return made


def has_pictures(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether messages, as `template_messages` returns them, have pictures."""
    return any(not isinstance(message["content"], str) for message in messages)


def _content(content: Any, where: str, role: str, may_lack: bool) -> str | list[dict[str, Any]]:
    if content is None and (may_lack or role == "assistant"):
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise RequestError("must be a string, or a list of parts", where)
    parts = [_part(part, f"{where}[{index}]") for index, part in enumerate(content)]
    if any(part["type"] == "image" for part in parts):
        return parts
    return "".join(part["text"] for part in parts)


def _part(part: Any, where: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else part
    if kind in ("text", "refusal"):
        return {"type": "text", "text": str(part.get(kind, ""))}
    if kind == _PICTURE:
        given = part.get(_PICTURE)
        url = given.get("url") if isinstance(given, Mapping) else given
        return {"type": "image", "image": _data(url, where)}
    raise RequestError(f"a part has the type text or {_PICTURE}, not {kind!r}", where)


def _data(url: Any, where: str) -> bytes:
    """Return the bytes in a data URL; others are not fetched for whoever sends a request."""
    head, found, data = str(url).partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64") or not found:
        raise RequestError(
            "a picture is a data URL (data:image/png;base64,...): others are not fetched", where
        )
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(f"its base64 cannot be read: {error}", where) from error


def _call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError("it has no function with a name", where)
    arguments = function.get("arguments", "{}")
    if isinstance(arguments, str):
        try:
            arguments = parse_json(arguments or "{}", f"{where}.function.arguments", InputError)
        except InputError as error:
            raise RequestError(str(error), where) from error
    made = {"name": function["name"], "arguments": arguments}
    return {"id": str(call.get("id", "")), "type": "function", "function": made}
