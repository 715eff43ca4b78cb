"""Messages of OpenAI's API as chat templates take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webpte.errors import InputError
from webpte.json_reader import parse_json
from webpte.openai.values import RequestError

_ROLES = ("system", "developer", "user", "assistant", "tool")


def template_messages(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the messages with contents as text, and arguments of tool calls as tables."""
    return [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise RequestError("it is not a table", where)
    role = message.get("role")
    if role not in _ROLES:
        raise RequestError(f"it is one of {', '.join(_ROLES)}, not {role!r}", f"{where}.role")
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
            raise RequestError("it is missing", f"{where}.tool_call_id")
        made["tool_call_id"] = message["tool_call_id"]
    if isinstance(message.get("name"), str):
        made["name"] = message["name"]
    return made


def _content(content: Any, where: str, role: str, may_lack: bool) -> str:
    if content is None and (may_lack or role == "assistant"):
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise RequestError("it is a text, or a list of parts", where)
    texts = []
    for index, part in enumerate(content):
        if not isinstance(part, Mapping) or part.get("type") not in ("text", "refusal"):
            kind = part.get("type") if isinstance(part, Mapping) else part
            raise RequestError(
                f"this model takes parts of type text, not {kind!r}", f"{where}[{index}]"
            )
        texts.append(str(part.get(part["type"], "")))
    return "".join(texts)


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
