"""The programs in a repository, by its layout: which run here, and the files that belong to them.

LAYOUTS has a row for each layout, in the order in which they are tried:

  webpte       NAME.manifest.json or card.json, as `serve.py export` writes it
  manifest     manifest.json, with paths and SHA-256 of files, of ExecuTorch's WebGPU collection
  backends     BACKEND/MODEL_BACKEND_PRECISION.pte, in folders by size, with a config.json each, of
               software-mansion; a tokenizer for several of them is in a folder above
  alone        any .pte, such as the model.pte of optimum-executorch
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from webpte.engine.browser import IN_BROWSER
from webpte.engine.files.json_reader import parse_json
from webpte.engine.files.manifest import MAX_BYTES, ManifestPart, read_manifest
from webpte.engine.files.source import ByteSource
from webpte.engine.open.hub import Repository, list_folder, list_hub
from webpte.engine.open.hub_name import HubName, is_hub, parse_name
from webpte.engine.open.manifest_files import check_part
from webpte.engine.open.open_source import let_go
from webpte.errors import DigestError, ManifestError, RepositoryError
from webpte.hub.parts import parts_of

_PROGRAM, _DATA = (".pte", ".bpte"), ".ptd"
_FOLDERS = ("tokenizer", "scheduler")
_SCHEDULE = "scheduler_config.json"  # of models that draw
_TOKENIZERS = ("tokenizer.json", "tokenizer.model")
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_CARD_TASK = re.compile(r"\A---\s.*?^pipeline_tag:\s*['\"]?([\w-]+)", re.S | re.M)
_WORDS = ("task", "pipeline_tag", "pipeline", "capabilities", "model_type", "architectures")
_HALF, _WHOLE = ("fp16", "f16"), ("fp32", "f32")


@dataclass(frozen=True)
class Backend:
    """A backend of ExecuTorch by the words of file names; the lowest `rank` is preferred."""

    title: str
    words: tuple[str, ...]
    rank: int = 9
    runs: bool = False


UNKNOWN = Backend("", (), 1, True)  # no name says it: opening the file will
BACKENDS = (
    Backend("WebGPU", ("webgpu",), 0, True),
    Backend("Vulkan", ("vulkan",), 0, True),
    Backend("XNNPACK", ("xnnpack",), 2, True),
    Backend("Core ML", ("coreml",)),
    Backend("MLX", ("mlx",)),
    Backend("QNN", ("qnn", "qualcomm", "htp")),
    Backend("MPS", ("mps",)),
    Backend("CUDA", ("cuda", "aoti")),
    Backend("Ethos-U", ("ethosu", "vela")),
    Backend("OpenVINO", ("openvino",)),
    Backend("MediaTek", ("mediatek", "neuropilot")),
)
_NAMED = frozenset(word for backend in BACKENDS for word in backend.words)


@dataclass(frozen=True)
class Variant:
    """A program in a repository.

    backend    the backend that it is for
    precision  "fp16", "8da4w", ..., as its name has it
    data       its `.ptd` files
    beside     paths of the files that belong to it, by name
    words      words for its task that its manifest has
    """

    program: ManifestPart
    backend: Backend = UNKNOWN
    precision: str = ""
    data: tuple[ManifestPart, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return self.program.name


@dataclass(frozen=True)
class ChosenProgram:
    """A variant of a repository; a source for `webpte.load` and for readers of files beside it.

    others   the programs of the same model that belong to it
    names    the names of all of them by path, as parts of the model; {} for a program alone
    """

    repository: Repository
    variant: Variant
    others: tuple[Variant, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        hub = self.repository.hub
        path = os.path.commonpath(self.names).strip("/") if self.names else self.variant.path
        return str(replace(hub, path=path) if hub else self.place)

    @property
    def name(self) -> str:
        """The name of the program: of its file, or of the repository of a model in parts."""
        if not self.others:
            return PurePosixPath(self.variant.path).name
        hub = self.repository.hub
        return hub.name if hub is not None else Path(self.repository.root).name

    @property
    def place(self) -> str | Path:
        """The address or path of the program."""
        return self.repository.place(self.variant.path)

    @property
    def path(self) -> str:
        """The path of the program in the repository."""
        return self.variant.path

    @property
    def parts(self) -> tuple[ManifestPart, ...]:
        """The program, its `.ptd` files, and the other programs of the model with theirs."""
        return tuple(
            part for one in (self.variant, *self.others) for part in (one.program, *one.data)
        )

    def name_part(self, part: ManifestPart, file: Any) -> None:
        """Set the name that an opened file has as a part of the model."""
        if part.name in self.names:
            file.part = self.names[part.name]

    async def open(self, part: ManifestPart, **fetch: Any) -> ByteSource:
        """Open one of the `parts`, and check it; `fetch` is for `open_source`."""
        file = await self.repository.open(part.name, **fetch)
        self.name_part(part, file)
        try:
            await check_part(file, part, fetch.get("progress"))
        except BaseException as error:
            if hasattr(file, "stop"):
                let_go(file, error)
            raise
        return file

    async def read_sibling(self, name: str) -> bytes | None:
        """Read a file that belongs to the program; None if there is none."""
        for one in (self.variant, *self.others):
            if (path := one.beside.get(name)) is not None:
                return await self.repository.read(path)
        return None

    async def words(self) -> list[str]:
        """Return words for the task: of the manifest, the model's card, and config.json files."""
        card = await _card_task(self.repository)
        configs = await _config_words(self.repository, self.variant.beside)
        draws = "text-to-image" if _SCHEDULE in self.variant.beside else ""
        return [word for word in (*self.variant.words, card, *configs, draws) if word]

    async def tokenizer(self) -> tuple[bytes, str]:
        """Read the tokenizer; return its name, too."""
        for name in _TOKENIZERS:
            if (data := await self.read_sibling(name)) is not None:
                return data, name
        raise RepositoryError(f"{self} has no tokenizer: give its path, or another tokenizer")


@dataclass(frozen=True)
class Layout:
    """A layout: the files that show it, and the function that lists its programs."""

    name: str
    shows: Callable[[str], bool]  # whether a path is a file of the layout
    read: Callable[[Repository, str], Awaitable[list[Variant]]]


async def list_variants(repository: Repository) -> list[Variant]:
    """List the programs of a repository in order of preference."""
    for layout in LAYOUTS:
        mark = next((path for path in repository.files if layout.shows(path)), None)
        if mark is not None and (found := await layout.read(repository, mark)):
            return sorted(found, key=lambda one: (one.backend.rank, one.program.size or 0))
    return []


async def choose(
    source: str | Path | HubName, keep: bool = False, half: bool = True
) -> ChosenProgram:
    """Choose a program of a repository, by its name or folder.

    keep  whether small files are kept in the browser's library
    half  whether the device has 16-bit floats: then files of 32 bits come last, else files of 16
    """
    repository, below = await open_repository(source, keep)
    return choose_among(repository, below, await list_variants(repository), half)


def choose_among(
    repository: Repository, below: str, variants: Sequence[Variant], half: bool = True
) -> ChosenProgram:
    """Choose among the programs that are `below` a path of a repository, as `choose`."""
    found = [one for one in variants if _is_below(one.path, below)]
    if below in repository.files:
        exact = [one for one in found if one.path == below]
        return ChosenProgram(repository, (exact or [_variant(repository, below)])[0])
    where = replace(repository.hub, path=below) if repository.hub else repository.root
    if not found:
        raise RepositoryError(f"{where} has no program (.pte): name another repository")
    running = [one for one in found if one.backend.runs]
    if not running:
        kinds = ", ".join(dict.fromkeys(one.backend.title for one in found))
        raise RepositoryError(
            f"{where} has programs for {kinds}, and none for Vulkan, WebGPU or XNNPACK: export the "
            "model with ExecuTorch's Vulkan partitioner, or name a file to open it all the same"
        )
    best = min(running, key=lambda one: _preference(one, half))
    by_path = {one.path: one for one in running}
    parts = parts_of(by_path, best.path, _NAMED, lambda path: _preference(by_path[path], half))
    if parts:
        first, *rest = (by_path[path] for path in parts.values())
        called = {path: name for name, path in parts.items() if name}
        return ChosenProgram(repository, first, tuple(rest), called)
    others = [one.path for one in running if one is best or _is_part(one, best)]
    if len(others) > 1:
        names = ", ".join(others)
        raise RepositoryError(f"{where} has several programs: name one of them, {names}")
    return ChosenProgram(repository, best)


def _is_part(one: Variant, best: Variant) -> bool:
    """Return whether two programs differ in more than a size: they may be parts of one model."""
    kinds = [(PurePosixPath(it.path).parent, it.backend.title, it.precision) for it in (one, best)]
    stems = [re.sub("[0-9]", "", PurePosixPath(it.path).stem) for it in (one, best)]
    return kinds[0] == kinds[1] and stems[0] != stems[1]


async def open_repository(
    source: str | Path | HubName, keep: bool = False
) -> tuple[Repository, str]:
    """List a repository by its name or folder; return the path in it that is named, too."""
    name = parse_name(source) if isinstance(source, str) and is_hub(source) else source
    if isinstance(name, HubName):
        return await list_hub(name, keep), name.path
    if IN_BROWSER:
        raise RepositoryError(f"{source} cannot be listed: name it as hf:OWNER/NAME")
    if not Path(name).is_dir():
        raise RepositoryError(f"{name}: there is no such folder; in the Hub it is hf:OWNER/NAME")
    return list_folder(Path(name)), ""


def _preference(one: Variant, half: bool) -> tuple[int, bool, int]:
    """Sort by backend, by precision, and the smallest first, which is likeliest to fit."""
    avoided = _WHOLE if half else _HALF
    return one.backend.rank, one.precision in avoided, one.program.size or 0


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


# ---- layouts


async def _webpte(repository: Repository, mark: str) -> list[Variant]:
    manifest = read_manifest(await repository.read(mark), mark)
    for part in (manifest.program, *manifest.data):
        if part.name not in repository.files:
            raise ManifestError(f"{repository} lacks {part.name}, which {mark} names")
    own = _variant(repository, manifest.program.name)
    beside = {**own.beside}
    if manifest.tokenizer is not None and manifest.tokenizer.name in repository.files:
        beside[_TOKENIZERS[0]] = manifest.tokenizer.name
    program, data = manifest.program, manifest.data
    words = (manifest.task,)
    return [replace(own, program=program, data=data, beside=beside, words=words)]


async def _manifest(repository: Repository, mark: str) -> list[Variant]:
    """Read a JSON that names files anywhere in it, with hashes and sizes."""
    if repository.files[mark].size > MAX_BYTES:
        raise ManifestError(f"{mark} is too long for a manifest")
    content = parse_json(await repository.read(mark), mark, ManifestError, not_finite=True)
    hashes: dict[str, str] = {}
    for path, digest in _hashes(content, repository.files.keys()):
        known = repository.files[path].sha256
        if known and known != digest:
            raise DigestError(path, digest, known)
        hashes[path] = digest
    words = tuple(words_of(content))
    found = []
    for path in (path for path in hashes if path.endswith(_PROGRAM)):
        one = _variant(repository, path, hashes)
        backend = one.backend if one.backend is not UNKNOWN else BACKENDS[0]
        found.append(replace(one, backend=backend, words=words))
    return found


def _hashes(content: Any, paths: Collection[str], own: str = "") -> Iterator[tuple[str, str]]:
    """Yield each known path in JSON with the SHA-256 beside it.

    A path and its hash are members of the same table, or the path is the key of the hash.

    own  the key of the content, if it is a path
    """
    for one in content if isinstance(content, list) else ():
        yield from _hashes(one, paths)
    members = content if isinstance(content, Mapping) else {}
    texts = [one for one in (*members.values(), content) if isinstance(one, str)]
    named = [text for text in texts if text in paths] or [own] * bool(own)
    digests = [found[1] for text in texts if (found := _SHA256.fullmatch(text)) is not None]
    if len(named) == 1 and len(digests) == 1:
        yield named[0], digests[0].lower()
    for key, value in members.items():
        yield from _hashes(value, paths, key if key in paths else "")


async def _by_path(repository: Repository, mark: str) -> list[Variant]:
    return [_variant(repository, path) for path in repository.files if path.endswith(_PROGRAM)]


def _variant(repository: Repository, path: str, hashes: Mapping[str, str] | None = None) -> Variant:
    """Describe a program by its path: .../BACKEND/MODEL_BACKEND_PRECISION.pte."""
    stem, folder = PurePosixPath(path).stem, str(PurePosixPath(path).parent)
    hashes = hashes or {}

    def part(name: str) -> ManifestPart:
        return ManifestPart(name, repository.files[name].size, hashes.get(name, ""))

    data = [
        one
        for one in repository.files
        if one.endswith(_DATA)
        and str(PurePosixPath(one).parent) == folder
        and PurePosixPath(one).stem.startswith(stem)
    ]
    named = _backend(path)
    backend, precision = named or (UNKNOWN, "")
    beside = _beside(repository, path)
    return Variant(part(path), backend, precision, tuple(map(part, sorted(data))), beside)


def _backend(path: str) -> tuple[Backend, str] | None:
    """Return the backend that a path names, and the precision after it."""
    stem = PurePosixPath(path).stem.lower()
    words = re.split("[_.-]", stem)
    for backend in BACKENDS:
        for word in backend.words:
            if word in words:
                return backend, "_".join(words[words.index(word) + 1 :])
            if word in PurePosixPath(path.lower()).parent.parts:
                return backend, words[-1]
    return None


def _beside(repository: Repository, program: str) -> dict[str, str]:
    """Return the files that belong to a program, by name: the nearest, in its folder or above.

    Files of the folders that diffusers gives to a model's tokenizer and schedule belong to it, too.
    """
    above = [str(one) for one in PurePosixPath(program).parents]
    found: dict[str, tuple[int, str]] = {}
    for path in repository.files:
        place = PurePosixPath(path)
        folder = place.parent.parent if place.parent.name in _FOLDERS else place.parent
        if str(folder) in above and not path.endswith((*_PROGRAM, _DATA)):
            depth = above.index(str(folder))
            found[place.name] = min(found.get(place.name, (depth, path)), (depth, path))
    return {name: path for name, (_, path) in found.items()}


async def _config_words(repository: Repository, beside: Mapping[str, str]) -> list[str]:
    """Return the words for a task in the config.json of a program's folder, and of its parents."""
    path, words = beside.get("config.json"), list[str]()
    if path is None:
        return []
    for folder in PurePosixPath(path).parents:
        config = repository.files.get(str(folder / "config.json"))
        if config is not None and config.size <= MAX_BYTES:
            data = await repository.read(str(folder / "config.json"))
            words += words_of(parse_json(data, path, RepositoryError, not_finite=True))
    return words


def words_of(content: Any) -> Iterator[str]:
    if isinstance(content, Mapping):
        for key in _WORDS:
            value = content.get(key)
            for word in value if isinstance(value, list) else [value]:
                if isinstance(word, str) and word:
                    yield word


async def _card_task(repository: Repository) -> str:
    """Return the pipeline that the model's card names, or ""."""
    card = repository.files.get("README.md")
    if card is None or card.size > MAX_BYTES:
        return ""
    found = _CARD_TASK.match((await repository.read("README.md")).decode("utf-8", "replace"))
    return found[1] if found is not None else ""


def _is_own(path: str) -> bool:
    return path == "card.json" or ("/" not in path and path.endswith(".manifest.json"))


def _names_backend(path: str) -> bool:
    return path.endswith(_PROGRAM) and any(word in path.lower() for word in _NAMED)


LAYOUTS = (
    Layout("webpte", _is_own, _webpte),
    Layout("manifest", lambda path: path == "manifest.json", _manifest),
    Layout("backends", _names_backend, _by_path),
    Layout("alone", lambda path: path.endswith(_PROGRAM), _by_path),
)
