"""Checks of the results of prompt.js, for every browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

ANSWER = "A cow says moo!"


def check_creation(found: Any) -> None:
    """Check the first sessions of a page, which open the model."""
    assert (found["before"], found["during"], found["after"]) == (
        *("downloadable", "downloading"),
        "available",
    )
    assert (found["kept"], found["other"]) == ("available", "downloadable")
    loaded = [event[0] for event in found["loaded"]]
    assert (loaded[0], loaded[-1]) == (0, 1)
    assert all(one < other for one, other in pairwise(loaded))
    assert all(event[1:] == [1, True] for event in found["loaded"])
    assert found["again"] == [0, 1]
    assert found["facts"] == {
        "contextUsage": 0,
        "contextWindow": 512,
        "topK": 1,
        "temperature": 0,
        "samplingMode": "most-predictable",
        "oncontextoverflow": None,
    }
    assert found["old"] == [0, 512, True]
    assert found["params"]["maxTemperature"] == 2
    assert found["is"] == [True, True, "[object LanguageModel]", True]
    assert found["illegal"]["name"] == "TypeError"
    assert (found["callback"]["name"], found["callback"]["message"]) == ("RangeError", "mine")


def _conversation(found: Any) -> None:
    assert found["whole"] == ANSWER
    assert abs(found["usage"] - found["asked"] - found["answered"]) <= 5
    assert found["same"] == [True, True]
    assert len(found["pieces"]) > 2
    assert found["grown"]
    assert found["second"] == "".join(found["pieces"])


def _prompts(found: Any) -> None:
    assert 0 < found["start"] < found["appended"]
    assert found["prefixed"].strip()
    assert not found["prefixed"].startswith("A cow")
    assert found["twice"] == "string"
    assert found["coerced"] == ["undefined"] * 6


_NAMES = {
    "RangeError": "language topK temperature",
    "NotSupportedError": (
        "unknown output pictures image audio assistant schema circular regex badPrefix toolResponse"
    ),
    "TypeError": (
        "soup mode both late options signal role content system systemAppended textValue omits "
        "constraint toolOutput toolTwice toolSchema"
    ),
    "SyntaxError": "prefixUser prefixEarly",
}


def _refusals(found: Any) -> None:
    expected = {case: name for name, cases in _NAMES.items() for case in cases.split()}
    told = found["found"]
    assert {case: error and error["name"] for case, error in told.items()} == expected
    assert all(error["message"] for error in told.values())
    doms = {case for case, error in told.items() if error["isDom"]}
    assert doms == {case for case, name in expected.items() if name[0] in "NS"}
    assert (found["usage"], found["answer"]) == (0, "string")


def _limits(found: Any) -> None:
    window = found["contextWindow"]
    assert found["usage"] > window
    for error in (found["created"], found["appended"], found["prompted"]):
        assert (error["name"], error["quota"], error["isDom"]) == (
            "QuotaExceededError",
            window,
            True,
        )
        assert error["requested"] == found["usage"]
    assert found["nothing"] == 0
    assert found["overflows"] == 1
    assert all(usage <= window for usage in found["usages"])
    assert found["base"] < found["end"] <= window
    assert found["answer"]


def _constraints(found: Any) -> None:
    plain, guided, omitted = found["usages"]
    assert plain == omitted < guided
    assert re.fullmatch(r'\{"rating": (\d(\.\d+)?)\}', found["rating"])
    assert found["choice"] in ("yes", "no")
    assert found["cased"].upper() == "YES"
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}", found["digits"])
    assert re.fullmatch(r"ings and \w{3}", found["whole"])
    assert -3 <= int(found["integer"]) <= 12
    assert (found["cut"]["name"], found["cut"]["isDom"]) == ("SyntaxError", True)


def _aborts(found: Any) -> None:
    names = {key: value["name"] for key, value in found.items() if isinstance(value, dict)}
    mine = {"before", "after"}
    assert names == {key: "TypeError" if key in mine else "AbortError" for key in names}
    assert {found[key]["message"] for key in mine} == {"mine"}
    assert len(names) == 9
    assert (found["usage"], found["piece"], found["answer"]) == (0, "string", ANSWER)


def _destroyed(found: Any) -> None:
    assert [error["name"] for error in found["during"]] == ["AbortError"] * 5
    assert [error["name"] for error in found["after"]] == ["AbortError"] * 5
    assert found["attributes"] == [0, 512]
    assert found["clone"] == ANSWER


def _tools(found: Any) -> None:
    assert found["usage"] > 0
    (part,) = found["parts"]
    assert part["type"] == "tool-call"
    assert part["value"]["callID"]
    assert (part["value"]["name"], part["value"]["arguments"]) == ("add", {"a": 7})
    refused = {name: error["name"] for name, error in found["refused"].items()}
    assert refused.pop("image") == "NotSupportedError"
    assert set(refused.values()) == {"DataError"}
    assert isinstance(found["answer"], str)
    assert found["asked"] == [{"a": 7}] * 2
    assert (found["final"]["name"], found["final"]["message"]) == ("RangeError", "mine")


def _installed(found: Any) -> None:
    assert found["same"]
    assert found["stepsAside"]
    assert found["takesOver"]
    assert found["prefers"]
    assert found["failed"]["name"] == "NetworkError"
    assert found["wrong"]["name"] == "TypeError"


def check_pictures(found: Any) -> None:
    """Check the scenario with a model that sees."""
    assert found["available"] in ("downloadable", "available")
    assert len(set(found["usages"].values())) == 1
    assert found["usages"]["canvas"] > found["alone"]
    assert found["answers"] == ["string"] * 3
    assert found["broken"]["name"] == "InvalidStateError"


PROMPT_CHECKS: dict[str, Callable[[Any], None]] = {
    "conversation": _conversation,
    "prompts": _prompts,
    "refusals": _refusals,
    "limits": _limits,
    "constraints": _constraints,
    "aborts": _aborts,
    "destroyed": _destroyed,
    "tools": _tools,
    "installed": _installed,
}
