"""docs/troubleshooting.md lists exactly the classes of errors, with their causes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from webpte import errors
from webpte.gpu.simulated.device import SimulatedDevice


def classes(above: type[Exception] = errors.WebpteError) -> set[str]:
    below = [classes(each) for each in above.__subclasses__() if each.__module__ == errors.__name__]
    return set().union({above.__name__}, *below)


def test_every_class_has_a_row(root: Path) -> None:
    text = (root / "docs/troubleshooting.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \| \w", text, re.M))
    assert rows == classes() - {"WebpteError"}


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
