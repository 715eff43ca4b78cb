"""`serve.py test --near` chooses tests by place, name and imports, and prints the choice."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from webpte_host.base.errors import HostError
from webpte_host.base.layout import ROOT
from webpte_host.commands import near, test_command
from webpte_host.setup import environment

OPS = "pysrc/webpte/engine/ops"
FILES = {
    "pysrc/webpte/__init__.py": "from webpte.llm import Chat\n",
    "pysrc/webpte/llm/__init__.py": "from webpte.llm.chat import Chat\n"
    "from webpte.llm.reply import Reply as Answer\n",
    "pysrc/webpte/llm/chat.py": "def run():\n    from webpte.llm.reply import Reply\n",
    "pysrc/webpte/llm/reply.py": "",
    f"{OPS}/reduce/softmax.py": 'KERNEL = "softmax"\n',
    f"{OPS}/reduce/rows.py": 'KERNEL = "rows"\n',
    "pysrc/webpte_host/table.py": 'LIST = "list.json"\n',
    "pysrc/webpte_host/list.json": "",
    "wgsl/lib/sum.wgsl": "",
    "wgsl/lib/line.wgsl": "// use lib/sum.wgsl\n",
    "wgsl/reduce/softmax.wgsl": "// use lib/line.wgsl\n",
    "web/page/views/chat/panel.py": "from webpte import llm\n",
    "web/page/views/chat/panel.css": "",
    "tests/support/cases/reduce/softmax_cases.py": "",
    "tests/support/cases/reduce/topk_cases.py": "",
    "tests/support/chats.py": "from webpte.llm import Chat\n",
    "tests/unit/llm/test_turns.py": "import webpte\n",
    "tests/unit/other/test_chat_later.py": "from support.chats import Chat\n",
    "tests/unit/other/test_answers.py": "from webpte.llm import Answer\n",
    "tests/unit/other/test_reply.py": "",
    "tests/unit/other/test_table.py": "import webpte_host.table\n",
    "tests/unit/test_face.py": "import webpte\n",
    "tests/unit/test_architecture.py": "",
    "tests/unit/engine/ops/reduce/test_topk.py": "",
    "tests/unit/web/views/test_chat_kept.py": "",
    "tests/browser/views/test_chat_view.py": "from support.chats import Chat\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def chosen(tree: Path, *changed: str) -> dict[str, str]:
    """Choose tests, without the tests of architecture, which follow every Python file."""
    reasons = near.choose(tree, changed).reasons
    return {test: why for test, why in reasons.items() if "architecture" not in test}


def test_imports_are_followed_through_packages_but_not_through_the_face(tree: Path) -> None:
    reply, chat = "pysrc/webpte/llm/reply.py", "pysrc/webpte/llm/chat.py"
    later = f"imports tests/support/chats.py, which needs {reply}"
    assert chosen(tree, reply) == {
        "tests/unit/llm/test_turns.py": f"follows {reply}",
        "tests/unit/other/test_reply.py": f"follows {reply}",
        "tests/unit/other/test_answers.py": f"imports {reply}",
        "tests/unit/other/test_chat_later.py": later,
    }
    assert "tests/unit/other/test_answers.py" not in chosen(tree, chat)


def test_a_deleted_module_is_still_imported(tree: Path) -> None:
    (tree / "pysrc/webpte/llm/reply.py").unlink()
    found = chosen(tree, "pysrc/webpte/llm/reply.py")
    assert found["tests/unit/other/test_answers.py"] == "imports pysrc/webpte/llm/reply.py"


def test_changed_tests_run_and_deleted_ones_do_not(tree: Path) -> None:
    test = "tests/browser/views/test_chat_view.py"
    assert chosen(tree, test, "tests/unit/gone/test_gone.py") == {test: "changed"}


def test_a_shader_is_followed_through_those_that_include_it(tree: Path) -> None:
    found = near.choose(tree, ["wgsl/lib/sum.wgsl"])
    assert found.reasons["tests/unit/engine/ops/reduce/test_topk.py"] == "follows wgsl/lib/sum.wgsl"
    assert found.tables == {"softmax"}


def test_a_module_without_a_table_has_the_tables_of_its_family(tree: Path) -> None:
    assert near.choose(tree, [f"{OPS}/reduce/softmax.py"]).tables == {"softmax"}
    for path in ("reduce/rows.py", "reduce/wide/rows.py"):
        assert near.choose(tree, [f"{OPS}/{path}"]).tables == {"softmax", "topk"}
    assert not near.choose(tree, [f"{OPS}/registry.py"]).tables


def test_imports_are_followed_a_few_steps(tree: Path) -> None:
    for test, steps in (("near", near.MOST_IMPORTS), ("far", near.MOST_IMPORTS + 1)):
        last = "webpte.llm.reply"
        for step in range(1, steps):
            (tree / f"tests/support/{test}_{step}.py").write_text(f"import {last}\n")
            last = f"support.{test}_{step}"
        (tree / f"tests/unit/other/test_{test}.py").write_text(f"import {last}\n")
    found = near.choose(tree, ["pysrc/webpte/llm/reply.py"])
    assert "tests/unit/other/test_near.py" in found.reasons
    assert "tests/unit/other/test_far.py" not in found.reasons
    assert found.farther == 1


def test_a_view_has_its_unit_tests_and_its_journey(tree: Path) -> None:
    for name in ("panel.py", "panel.css"):
        place = f"web/page/views/chat/{name}"
        assert chosen(tree, place) == {
            "tests/unit/web/views/test_chat_kept.py": f"follows {place}",
            "tests/browser/views/test_chat_view.py": f"follows {place}",
        }


def test_data_has_the_tests_of_the_code_that_names_it(tree: Path) -> None:
    data, code = "pysrc/webpte_host/list.json", "pysrc/webpte_host/table.py"
    assert chosen(tree, data) == {"tests/unit/other/test_table.py": f"follows {data}"}
    (tree / "tests/unit/other/test_table.py").rename(tree / "tests/unit/other/test_list.py")
    why = f"imports {code}, which names {data}"
    assert chosen(tree, data) == {"tests/unit/other/test_list.py": why}


def test_those_farther_away_are_counted(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "MOST_FILES", 1)
    reply = "pysrc/webpte/llm/reply.py"
    found = near.choose(tree, [reply])
    assert "tests/unit/other/test_chat_later.py" not in found.reasons
    assert found.lines() == [
        f"tests/unit/llm/test_turns.py: follows {reply}",
        f"tests/unit/other/test_answers.py: imports {reply}",
        f"tests/unit/other/test_reply.py: follows {reply}",
        f"tests/unit/test_architecture.py: follows {reply}",
        "left out, farther away: 1 files of tests",
    ]


def test_files_of_a_folder_share_a_line() -> None:
    found = near.Near({f"tests/unit/{name}.py": "changed" for name in "ab"}, {"topk", "fill"})
    assert found.lines() == [
        "tests/unit (2 files): changed",
        "tests/native/test_tables.py: rows of fill, topk",
    ]


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_a_branch_differs_from_the_main_one_and_the_main_one_from_its_last_commit(
    tmp_path: Path,
) -> None:
    git(tmp_path, "init", "-b", "main")
    for name in ("first", "second"):
        (tmp_path / name).touch()
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-m", f"Add the {name}")
    base, changed = near.changed_files(tmp_path)
    assert base.endswith("Add the first")
    assert changed == ["second"]
    (tmp_path / "untracked").touch()
    base, changed = near.changed_files(tmp_path)
    assert base.endswith("Add the second")
    assert changed == ["untracked"]
    git(tmp_path, "switch", "-c", "other")
    git(tmp_path, "rm", "first")
    git(tmp_path, "commit", "-m", "Remove the first")
    base, changed = near.changed_files(tmp_path)
    assert base.endswith("Add the second")
    assert changed == ["first", "untracked"]


def test_without_a_commit_nothing_differs(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no file differs"):
        near.changed_files(tmp_path)


def test_every_rule_leads_to_tests() -> None:
    """A rule without a group names tests that exist."""
    for pattern, tests in near.RULES:
        for test in tests.split():
            if not re.search(r"\{\d\}", test):
                assert list(ROOT.glob(test)), (pattern, test)


def test_sections_are_those_of_the_chosen_tests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted: dict[str, Any] = {}
    files = ["tests/unit/a.py", "tests/browser/views/b.py"]
    found = near.Near(dict.fromkeys(files, "changed"), {"topk"})
    monkeypatch.setattr(near, "changed_files", lambda _root: ("1a2b Do", ["x.py"]))
    monkeypatch.setattr(near, "choose", lambda _root, _changed: found)
    monkeypatch.setattr(environment, "ensure", lambda **_options: Path("python"))
    monkeypatch.setattr(test_command, "_run_sections", wanted.update)
    assert test_command.main(["--near", "-x"]) == 0
    set_up = wanted["drivers and browsers"].keywords
    assert set_up == {"with_browser": True, "with_driver": True, "with_firefox": False}
    assert wanted["unit tests"][-2:] == ["-x", files[0]]
    assert wanted["browser tests"][-2:] == ["-x", files[1]]
    assert wanted["native tests"][-3:] == ["tests/native/test_tables.py", "-k", "topk-"]
    assert {"ruff check", "ruff format", "mypy"} < wanted.keys()
    assert "Firefox tests" not in wanted
    said = capsys.readouterr().out
    assert said.startswith("1 files differ from 1a2b Do. Near them:\n")
    assert f"    {files[0]}: changed\n" in said
