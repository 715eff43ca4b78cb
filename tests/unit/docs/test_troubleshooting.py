"""docs/start/troubleshooting.md lists exactly the classes of errors, with their causes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from webpte import errors
from webpte.engine.gpu.simulated.device import SimulatedDevice


def classes(above: type[Exception] = errors.WebpteError) -> set[str]:
    below = [classes(each) for each in above.__subclasses__() if each.__module__ == errors.__name__]
    return set().union({above.__name__}, *below)


def test_every_class_is_listed(root: Path) -> None:
    text = (root / "docs/start/troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\|$", text.partition("\n## Every class of error\n")[2], re.M)
    listed = re.findall(r"`([A-Z]\w+Error)`", "\n".join(rows))
    assert sorted(listed) == sorted(classes() - {"WebpteError"})


def page_texts(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the strings of Python files, in parts: values are put between two parts."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield (node.value,)
            elif isinstance(node, ast.JoinedStr):
                yield tuple(
                    str(part.value) if isinstance(part, ast.Constant) else "\0"
                    for part in node.values
                )


def test_what_the_page_says_is_quoted_as_it_is(root: Path) -> None:
    text = (root / "docs/start/troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall("“(.+?)”", text.partition("\n## In Python\n")[0])
    assert len(quoted) > 20
    texts = [*page_texts(root / "web/page"), *page_texts(root / "pysrc/webpte/engine/format")]
    files = [root / "web/index.html", *(root / "web/scripts").glob("*.js")]
    known = "\n".join([*map("".join, texts), *(path.read_text("utf-8") for path in files)])
    filled = [".+".join(map(re.escape, "".join(parts).split("\0"))) for parts in texts if parts[1:]]
    for quote in quoted:
        # Sentences may come from different places, and values may be put into them.
        for sentence in re.split(r"(?<=\.) ", quote.strip("… ")):
            found = sentence in known or any(
                len(pattern) > 12 and re.search(pattern, sentence) for pattern in filled
            )
            assert found, f"the page does not say {sentence!r}"


def test_in_a_call_errors_come_as_what_they_are(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SimulatedDevice()
    program = wait(webpte.load(root / "web/samples/sigmoid.pte", device=device))
    (info,) = program.methods["forward"].inputs
    assert isinstance(info, webpte.TensorInfo)
    x = np.zeros(info.shape, np.float32)
    with monkeypatch.context() as patch:
        patch.setattr(device, "run", lambda *_, **__: int("no number"))
        with pytest.raises(
            errors.ExecutionError, match=r"^method 'forward', delegate 0: "
        ) as other:
            wait(program.forward(x))
    assert type(other.value) is errors.ExecutionError
    assert isinstance(other.value.__cause__, ValueError)
    for kind in (errors.OutOfMemoryError, errors.ShaderError, errors.DeviceLostError):
        device.inject(kind, method="run")
        with pytest.raises(kind, match=r"^method 'forward', delegate 0: .*injected") as caught:
            wait(program.forward(x))
        assert type(caught.value) is kind
        assert str(caught.value.__cause__) in str(caught.value)
    with pytest.raises(errors.InputError):
        wait(program.forward(x[None]))
    program.close()
    with pytest.raises(errors.ClosedError):
        wait(program.forward(x))
