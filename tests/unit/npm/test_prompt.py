"""webpte/prompt behind faults: lost devices, ended workers, full contexts, in Node.

tests/browser/programs/test_prompt_api.py has the rest, with a real model.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from webpte_host.base.layout import ROOT, WEB
from webpte_host.setup.precompile import find_node

SCRIPT = ROOT / "tests" / "support" / "npm" / "prompt_faults.mjs"
ABORTED = {"name": "AbortError", "isDom": True}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The results of all scenarios, by name."""
    package = tmp_path_factory.mktemp("package") / "npm"
    shutil.copytree(WEB / "npm", package)
    (package / "versions.js").write_text('export const [PYODIDE, WEBPTE] = ["0", "0"];\n')
    (package / "package.json").write_text('{"type": "module"}')
    node = find_node()
    assert node is not None
    command = [node, str(SCRIPT), package.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_an_answer_goes_on_after_a_lost_device(found: Any) -> None:
    one = found["lostDevice"]
    assert one["pieces"] == ["A ", "cow ", "says moo."]
    assert (one["recovered"], one["goesOn"], one["begun"]) == (1, [False, True], "A cow ")


def test_a_device_that_stays_lost_ends_the_prompt_alone(found: Any) -> None:
    one = found["lostAgain"]
    assert one["error"] == {"name": "UnknownError", "cause": "DeviceLostError", "isDom": True}
    assert (one["usage"], one["answer"]) == (0, "Yes.")
    assert found["fails"]["error"]["cause"] == "OutOfMemoryError"
    assert found["fails"]["usage"] == 0


def test_an_answer_gets_room_where_messages_can_be_dropped(found: Any) -> None:
    one = found["fullContext"]
    assert one["alone"] == "one two three"
    assert (one["second"], one["overflows"], one["begun"]) == ("four five six", 1, "four five ")
    assert one["asked"] == ["Second question.", "four five "]


def test_the_oldest_messages_are_dropped_but_never_the_first(found: Any) -> None:
    one = found["dropsTheOldest"]
    assert one["events"] == ["new", "old"]
    assert one["tooLong"] == {"name": "QuotaExceededError", "isDom": True}
    assert one["asked"] == ["B", "b", "c", "d", "W"], "a refused message drops none"
    assert one["before"] == one["after"]


def test_a_session_opens_the_model_again_after_its_worker(found: Any) -> None:
    one = found["endedWorker"]
    assert one == {"availability": "downloadable", "answer": "Two.", "opened": 2, "asked": 3}


def test_sessions_that_are_created_at_once_open_one_model(found: Any) -> None:
    one = found["twoAtOnce"]
    assert one["first"] == ABORTED
    assert one["ended"] == [ABORTED] * 2
    assert one["opened"] == [1, 3], "an opening that all have left ends, and another begins"


def test_the_model_is_closed_after_the_last_session(found: Any) -> None:
    one = found["unloads"]
    assert one["early"] == 0, "another session is left"
    assert (one["closed"], one["opened"], one["late"], one["answer"]) == (1, 2, 1, "One.")
