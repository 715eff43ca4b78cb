"""Names of repositories of the Hugging Face Hub, and the addresses of their files.

    hf:OWNER/NAME[/PATH][@REVISION]

`PATH` is a file or a folder of the repository, `REVISION` a branch, tag or commit (`main`). The
environment variable HF_ENDPOINT names another server with the same paths.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from webpte.errors import RepositoryNameError

PREFIX, MAIN = "hf:", "main"
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_NAME = re.compile(rf"hf:({_PART})/({_PART})((?:/[^/@]+)*)/?(?:@([^@]+))?")
_PLACE = re.compile(rf"/({_PART})/({_PART})(?:/(?:resolve|blob|raw|tree)/([^/]+)((?:/[^/]+)*))?/?")
_NOT_OWNERS = ("api", "datasets", "docs", "spaces")  # first parts of the Hub's other addresses


@dataclass(frozen=True)
class HubName:
    """A repository's name, with a revision; `path` is a file or folder in it, or ""."""

    owner: str
    name: str
    path: str = ""
    revision: str = MAIN

    def __str__(self) -> str:
        path = f"/{self.path}" if self.path else ""
        revision = f"@{self.revision}" if self.revision != MAIN else ""
        return f"{PREFIX}{self.owner}/{self.name}{path}{revision}"

    @property
    def page(self) -> str:
        """The address of the repository, for people."""
        return f"{endpoint()}/{self.owner}/{self.name}"

    @property
    def root(self) -> str:
        """The address that paths of files are appended to."""
        return f"{self.page}/resolve/{quote(self.revision, safe='')}/"


@dataclass(frozen=True)
class RepositoryFile:
    """A file of a repository: its size, what identifies its content, its SHA-256 if known."""

    size: int
    content: str = ""
    sha256: str = ""


def endpoint() -> str:
    """Return the address of the Hub, without a final slash."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def is_hub(source: object) -> bool:
    """Return whether a source is a name in the Hub."""
    return isinstance(source, str) and source.startswith(PREFIX)


def parse_name(text: str) -> HubName:
    """Parse hf:OWNER/NAME[/PATH][@REVISION]."""
    found = _NAME.fullmatch(text)
    path, revision = (found[3][1:], found[4] or MAIN) if found is not None else ("", "")
    if found is None or not (is_path(path or "a") and is_path(revision)):
        raise RepositoryNameError(
            f"{text!r} is not a name in the Hub: write hf:OWNER/NAME, and after it /PATH of a file "
            "or folder, and @REVISION, where these are wanted"
        )
    return HubName(found[1], found[2], path, revision)


def name_of_address(address: str) -> HubName | None:
    """Return the name for an address of the Hub: of a repository, or of a file or folder in it."""
    if not address.startswith(f"{endpoint()}/"):
        return None
    found = _PLACE.fullmatch(urlsplit(address).path.removeprefix(urlsplit(endpoint()).path))
    if found is None or found[1] in _NOT_OWNERS or found[2].endswith((".pte", ".json")):
        return None
    path, revision = unquote(found[4] or "")[1:], unquote(found[3] or MAIN)
    is_name = is_path(path or "a") and is_path(revision)
    return HubName(found[1], found[2], path, revision) if is_name else None


def is_path(text: str) -> bool:
    parts = text.split("/")
    return text.isprintable() and "\\" not in text and not {"", ".", ".."} & set(parts)
