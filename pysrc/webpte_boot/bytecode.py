"""Compiled modules from the last visit: importing takes about half as long without compiling.

Files and their times are new at every visit, so Python cannot reuse its own cache. Modules are kept
by the hash of their source: a module that has changed is compiled. The code that dataclasses
generate for each class, nearly half of the time of an import, is kept by its text.
"""

from __future__ import annotations

import dataclasses
import marshal
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

_VERSION = f"{sys.version} 2"  # of Python, and of what is packed
_HEAD = 16  # bytes of a .pyc before the code: magic number, flags, and what it goes by
# A module: its source file, whether it is a package, the hash of its source, and its code.
Module = tuple[str, bool, bytes, bytes]


class KeptLoader(SourceFileLoader):
    """Loads a module from its kept code, or from its source if that has changed."""

    def __init__(self, name: str, kept: Module) -> None:
        super().__init__(name, kept[0])
        self._kept: Module | None = kept

    def get_code(self, fullname: str) -> CodeType | None:
        if self._kept is not None and source_hash(self.get_data(self.path)) == self._kept[2]:
            code: CodeType = marshal.loads(self._kept[3])
            return code
        self._kept = None
        return super().get_code(fullname)

    @property
    def used(self) -> Module | None:
        """The kept module, unless its source has changed."""
        return self._kept


class KeptModules:
    """Finds modules that the last visit has compiled, without a look at other folders."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        kept = self._modules.get(name)
        if kept is None or not Path(kept[0]).is_file():
            return None
        inside = [kept[0].rpartition("/")[0]] if kept[1] else None
        return spec_from_file_location(
            name, kept[0], loader=KeptLoader(name, kept), submodule_search_locations=inside
        )


def put_first(modules: Mapping[str, Module]) -> None:
    """Let Python look for modules among these first."""
    sys.meta_path.insert(0, KeptModules(modules))


def compiled_modules(modules: Iterable[ModuleType]) -> dict[str, Module]:
    """Return the code of modules, by name: what was kept, or what Python wrote as .pyc file."""
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
    """Code that dataclasses generate; until `end`, what is in `kept` is not compiled again."""

    def __init__(self, kept: Mapping[str, CodeType]) -> None:
        self._kept = kept
        self.used: dict[str, CodeType] = {}  # by its text
        dataclasses.exec = self._run  # type: ignore[attr-defined] # before the built-in one

    def end(self) -> None:
        del dataclasses.exec  # type: ignore[attr-defined]

    @property
    def is_kept(self) -> bool:
        return self.used.keys() == self._kept.keys()

    def _run(self, text: str, *scopes: dict[str, object]) -> None:
        code = self._kept.get(text)
        if code is None:
            code = compile(text, "<string>", "exec", dont_inherit=True)
        self.used[text] = code
        exec(code, *scopes)


def pack(modules: Mapping[str, Module], generated: Mapping[str, CodeType]) -> bytes:
    return marshal.dumps((_VERSION, dict(modules), dict(generated)))


def unpack(data: bytes) -> tuple[dict[str, Module], dict[str, CodeType]]:
    """Return the packed modules and code; nothing if another Python version has written them."""
    try:
        version, modules, generated = marshal.loads(data)
    except (ValueError, EOFError, TypeError):
        return {}, {}
    return (dict(modules), dict(generated)) if version == _VERSION else ({}, {})
