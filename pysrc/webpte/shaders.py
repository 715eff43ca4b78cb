"""WGSL files as the kernels' records ask for them.

A shader is a plain WGSL file. Two things happen to its text, and no more: a line
`// use lib/x.wgsl` is replaced by that file, and `${NAME}` by the record's type or formula. Where
one of those types is f16, the shader enables it; `// use lib/x.wgsl with f16` is for those only.
The `@binding` lines are read to make the bind group layout, so they are written once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from webpte.errors import ShaderError

_USE = re.compile(r"^// use (\S+)( with f16)?$", re.MULTILINE)
_NAME = re.compile(r"\$\{(\w+)\}")
_BINDING = re.compile(
    r"@group\(0\) @binding\((\d+)\) var<(storage, read_write|storage, read|uniform)>"
)
_ACCESS = {"storage, read": "read", "storage, read_write": "write", "uniform": "uniform"}


@dataclass(frozen=True)
class Shader:
    """Complete WGSL, and how each binding is used: "read", "write" or "uniform"."""

    code: str
    bindings: tuple[str, ...]


def shader_folder() -> Path:
    """Inside the package when it is installed, beside `pysrc/` in a checkout."""
    package = Path(__file__).parent
    installed = package / "wgsl"
    return installed if installed.is_dir() else package.parent.parent / "wgsl"


class ShaderLibrary:
    """Reads and assembles shaders; each file is read once."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or shader_folder()
        self._files: dict[tuple[str, bool], str] = {}

    def assemble(self, kernel: str, types: tuple[tuple[str, str], ...]) -> Shader:
        """The shader of `kernel` with every `${NAME}` of its text replaced."""
        replacements = dict(types)
        half = any("f16" in value for value in replacements.values())

        def replace(match: re.Match[str]) -> str:
            try:
                return replacements[match[1]]
            except KeyError:
                raise ShaderError(f"{kernel}.wgsl: nothing to put in for {match[0]}") from None

        code = _NAME.sub(replace, self._read(f"{kernel}.wgsl", half))
        if half:
            code = "enable f16;\n" + code
        found = [(int(index), _ACCESS[access]) for index, access in _BINDING.findall(code)]
        if [index for index, _ in found] != list(range(len(found))):
            raise ShaderError(f"{kernel}.wgsl: its @binding lines do not count 0, 1, 2, ...")
        return Shader(code, tuple(access for _, access in found))

    def _read(self, name: str, half: bool) -> str:
        def use(match: re.Match[str]) -> str:
            return self._read(match[1], half) if half or not match[2] else ""

        if (name, half) not in self._files:
            path = self._folder / name
            if not path.is_file():
                raise ShaderError(f"{name}: no such shader in {self._folder.name}/")
            self._files[name, half] = _USE.sub(use, path.read_text(encoding="utf-8"))
        return self._files[name, half]
