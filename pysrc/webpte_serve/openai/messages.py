"""Messages of OpenAI's API in the form of chat templates."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from webpte.engine.files.json_reader import parse_json, shown
from webpte.errors import InputError
from webpte.llm.prompt import PromptPicture
from webpte.tasks.task import HeldResult
from webpte.tasks.vision.picture_files import measure_picture
from webpte_serve.openai.values import RequestError

_ROLES = ("system", "developer", "user", "assistant", "tool")
_PICTURE = "image_url"
MOST_PICTURES = 32  # per request
MOST_PIXELS, MOST_PIXELS_IN_ALL = 1 << 25, 1 << 26


class SeenPicture(HeldResult):
    """A picture that was read once, for any number of requests of this process.

    height, width   its size in pixels
    """

    fields = ("height", "width")

    def __init__(self, picture: PromptPicture) -> None:
        self.height, self.width = picture.pixels.shape[:2]
        self._picture: PromptPicture | None = picture

    @property
    def picture(self) -> PromptPicture:
        """The picture; raises InputError once this is closed."""
        if self._picture is None:
            raise InputError("the picture was closed: read it again")
        return self._picture

    def close(self) -> None:
        self._picture = None


def template_messages(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the messages with contents as text, and arguments of tool calls as tables.

    A content with pictures is a list of parts: {"type": "text", "text"}, and {"type": "image",
    "image"} with the bytes of a picture's file.
    """
    found = [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]
    if (count := len(pictures_in(found))) > MOST_PICTURES:
        raise RequestError(f"they have {count} pictures; at most {MOST_PICTURES}", "messages")
    return found


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


def without_system(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages whose system message begins the user's first, for templates without one."""
    rest = [dict(message) for message in messages]
    if not rest or rest[0]["role"] != "system":
        return rest
    rest[0]["role"] = "user"
    if len(rest) > 1 and rest[1]["role"] == "user":
        told, asked = rest.pop(0), rest[0]
        asked["content"] = _joined(told["content"], asked["content"])
    return rest


def in_turns(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages in which user and assistant take turns: others of one role are joined."""
    found: list[dict[str, Any]] = []
    for message in without_system(messages):
        last = found[-1] if found else {}
        plain = message["role"] in ("user", "assistant") and not message.get("tool_calls")
        if plain and last.get("role") == message["role"] and not last.get("tool_calls"):
            last["content"] = _joined(last["content"], message["content"])
        else:
            found.append(dict(message))
    return found


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return "\n\n".join(filter(None, (one, other)))
    parts = [[{"type": "text", "text": c}] if isinstance(c, str) else list(c) for c in (one, other)]
    return parts[0] + parts[1]


def pictures_in(messages: Sequence[Mapping[str, Any]]) -> list[bytes | PromptPicture]:
    """Return the pictures in the result of `template_messages`: files, or pictures seen before."""
    contents = [message["content"] for message in messages]
    parts = [part for content in contents if not isinstance(content, str) for part in content]
    return [part["image"] for part in parts if part["type"] == "image"]


async def measure_pictures(files: Sequence[bytes | PromptPicture]) -> None:
    """Raise RequestError for pictures that are too large, before they are decoded."""
    total = 0
    for file in files:
        if isinstance(file, PromptPicture):
            continue
        try:
            height, width = await measure_picture(file)
        except InputError as error:
            raise RequestError(str(error), "messages") from error
        total += height * width
        if height * width > MOST_PIXELS:
            raise RequestError(
                f"a picture has {width} by {height} pixels; at most {MOST_PIXELS:,} are decoded: "
                "send a smaller one, models see less of it",
                "messages",
            )
    if total > MOST_PIXELS_IN_ALL:
        raise RequestError(
            f"the pictures have {total:,} pixels; at most {MOST_PIXELS_IN_ALL:,} are decoded for "
            "one request: send smaller ones, or fewer",
            "messages",
        )


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
    if not isinstance(part, Mapping):
        raise RequestError(f"must be an object, not {shown(part)}", where)
    kind = part.get("type")
    if kind in ("text", "refusal"):
        if not isinstance(part.get(kind), str):
            raise RequestError("must be a string", f"{where}.{kind}")
        return {"type": "text", "text": part[kind]}
    if kind == _PICTURE:
        given = part.get(_PICTURE)
        url = given.get("url") if isinstance(given, Mapping) else given
        return {"type": "image", "image": _data(url, where)}
    raise RequestError(f"a part has the type text or {_PICTURE}, not {kind!r}", where)


def _data(url: Any, where: str) -> bytes | PromptPicture:
    """Return the bytes in a data URL; refuse other URLs, so that requests cause no fetches.

    A caller in this process may give a SeenPicture instead.
    """
    if isinstance(url, SeenPicture):
        return url.picture
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
