"""Checks of markup: it is well formed, and nothing from a file became an element."""

from __future__ import annotations

from html.parser import HTMLParser

from webpte import MethodInfo, TensorInfo

NASTY = "<img src=x onerror=alert(1)>\"'&"
VOID = {"img", "input", "br"}


class Checker(HTMLParser):
    """Fails on tags that are not closed in order; collects elements and text."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def acts(self) -> set[str]:
        return {known["data-act"] or "" for _, known in self.elements if "data-act" in known}


def check(markup: str) -> Checker:
    """Check that markup is well formed, has no element from a file, and nothing inline that a CSP
    forbids."""
    checked = Checker(markup)
    for tag, known in checked.elements:
        assert tag not in ("script", "style")
        assert not any(name.startswith("on") or name == "style" for name in known)
        assert known.get("src") != "x"
    return checked


def method(**changes: object) -> MethodInfo:
    known: dict[str, object] = {
        "name": "forward",
        "inputs": (TensorInfo("x", (9, 3), "float32", True),),
        "outputs": (TensorInfo("y", (9, 5), "float32", False),),
        "ops": {"aten.add.Tensor": 7, "aten.relu.default": 2},
        "kernels_outside": {},
        "unsupported": {},
        "constants": (),
        "is_constant": False,
    }
    return MethodInfo(**{**known, **changes})  # type: ignore[arg-type]
