"""Compiled modules, of the site or of the last visit: imports take half as long without compiling.

Files and their times are new at every visit, so Python cannot reuse its own cache. Modules are kept
by the hash of their source: a module that has changed is compiled. The code that dataclasses
generate for each class, nearly half of the time of an import, is kept by its text.
"""

from __future__ import annotations

import dataclasses
import marshal
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

_VERSION = f"{sys.version} 2"  # of Python, and of the format
_HEAD = 16  # bytes of a .pyc before the code: magic number, flags, and a date or a hash
# A module: its source file, whether it is a package, the hash of its source, and its code.
Module = tuple[str, bool, bytes, bytes]
# Modules by name, and generated code by its text.
Compiled = tuple[dict[str, Module], dict[str, CodeType]]


class KeptLoader(SourceFileLoader):
    """Loads a module from kept code, or from its source if that has changed since."""

    used: Module | None = None  # of those kept, once it is loaded

    def __init__(self, name: str, kept: Sequence[Module]) -> None:
        """Build the loader of a file that was compiled once or several times."""
        super().__init__(name, kept[0][0])
        self._kept = kept

    def get_code(self, fullname: str) -> CodeType | None:
        source = self.get_data(self.path)
        found = source_hash(source)
        self.used = next((one for one in self._kept if one[2] == found), None)
        if self.used is None and not source:
            self.used = self._kept[0]  # the site has its source elsewhere (later.py)
        if self.used is None:
            return super().get_code(fullname)
        code: CodeType = marshal.loads(self.used[3])
        return code


class KeptModules:
    """Finds modules that were compiled before, without a look at other folders."""

    def __init__(self, several: Sequence[Mapping[str, Module]]) -> None:
        self._several = several

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = [modules[name] for modules in self._several if name in modules]
        kept = [one for one in found if Path(one[0]).is_file()]
        if not kept:
            return None
        file, is_package = kept[0][:2]
        inside = [file.rpartition("/")[0]] if is_package else None
        loader = KeptLoader(name, [one for one in kept if one[0] == file])
        return spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)


def put_first(*several: Mapping[str, Module]) -> None:
    """Let Python look for modules among these first."""
    sys.meta_path.insert(0, KeptModules(several))


def compiled_modules(modules: Iterable[ModuleType]) -> dict[str, Module]:
    """Return the code of modules, by name: kept code, or code that Python wrote as .pyc file."""
    found: dict[str, Module] = {}
    for module in modules:
        spec = getattr(module, "__spec__", None)
        loader = getattr(spec, "loader", None)
        if isinstance(loader, KeptLoader) and loader.used is not None:
            found[module.__name__] = loader.used
            continue
        origin, cached = getattr(spec, "origin", None), getattr(spec, "cached", None)
        if not origin or not cached or not Path(cached).is_file():
            continue
        data = Path(cached).read_bytes()
        if data[:4] == MAGIC_NUMBER:
            by = source_hash(Path(origin).read_bytes())
            found[module.__name__] = (origin, hasattr(module, "__path__"), by, data[_HEAD:])
    return found


class Generated:
    """Code that dataclasses generate; until `end`, code in `kept` is not compiled again."""

    def __init__(self, kept: Mapping[str, CodeType]) -> None:
        self._kept = kept
        self.used: dict[str, CodeType] = {}  # by its text
        dataclasses.exec = self._run  # type: ignore[attr-defined] # before the built-in one

    def end(self) -> None:
        del dataclasses.exec  # type: ignore[attr-defined]

    def _run(self, text: str, *scopes: dict[str, object]) -> None:
        code = self._kept.get(text)
        if code is None:
            code = compile(text, "<string>", "exec", dont_inherit=True)
        self.used[text] = code
        exec(code, *scopes)


def pack(modules: Mapping[str, Module], generated: Mapping[str, CodeType]) -> bytes:
    return marshal.dumps((_VERSION, dict(modules), dict(generated)))


def unpack(data: bytes) -> Compiled:
    """Return the packed modules and code; nothing if another Python version has written them."""
    try:
        version, modules, generated = marshal.loads(data)
    except (ValueError, EOFError, TypeError):
        return {}, {}
    return (dict(modules), dict(generated)) if version == _VERSION else ({}, {})


def write_file(path: Path, modules: Mapping[str, Module], code: Mapping[str, CodeType]) -> None:
    path.write_bytes(zlib.compress(pack(modules, code), 9))


def read_file(path: Path) -> Compiled:
    """Return what `write_file` wrote; nothing where there is no such file."""
    try:
        return unpack(zlib.decompress(path.read_bytes()))
    except (OSError, zlib.error):
        return {}, {}
