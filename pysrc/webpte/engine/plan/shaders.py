"""Assembly of the kernels' WGSL.

A shader is a plain WGSL file. Its text has just two replacements: a line `// use lib/x.wgsl` is
replaced by that file, and `${NAME}` by the record's type or formula, also in the name of a file. If
any type is f16, the shader enables f16, and likewise the size of subgroups where a type asks for
it; `// use lib/x.wgsl with f16` includes a file only with f16. The `@binding` lines are parsed for
the bind group layout and to check bindings, so they are written once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from webpte.errors import ShaderError

_USE = re.compile(r"^// use (\S+)( with f16)?$", re.MULTILINE)
_NAME = re.compile(r"\$\{(\w+)\}")
_BINDING = re.compile(
    r"@group\(0\) @binding\((\d+)\) "
    r"var<(storage, read_write|storage, read|uniform)> (\w+): ([^;@]+);"
)
_ALIAS = re.compile(r"^alias (\w+) = ([^;\n]+);", re.MULTILINE)
_COMPOSITE = re.compile(r"(?:array|vec[234]|atomic)<(.+)>")
_SHORT_VECTOR = re.compile(r"vec[234]([fhiu])")
_SCALARS = {"f": "f32", "h": "f16", "i": "i32", "u": "u32"}
_SIZED = "@subgroup_size("
_ACCESS = {"storage, read": "read", "storage, read_write": "write"}

Types = tuple[tuple[str, str], ...]  # the replacement of each ${NAME}


@dataclass(frozen=True)
class Variable:
    """A binding: its name, its access ("read", "write" or "uniform") and its element type."""

    name: str
    access: str
    scalar: str  # f32, f16, i32 or u32; "" for uniforms that are not arrays


@dataclass(frozen=True)
class Shader:
    """Complete WGSL, and its bindings in order."""

    code: str
    variables: tuple[Variable, ...]

    @cached_property
    def bindings(self) -> tuple[str, ...]:
        return tuple(variable.access for variable in self.variables)


def shader_folder() -> Path:
    """Return the shaders' folder: in the package if installed, next to `pysrc/` in a checkout."""
    package = Path(__file__).parents[2]
    installed = package / "wgsl"
    return installed if installed.is_dir() else package.parent.parent / "wgsl"


@cache
def kernel_files(folder: Path) -> dict[str, str]:
    """Map each kernel's name to its file; files in `lib/` are only included by kernels."""
    files = (path.relative_to(folder) for path in sorted(folder.glob("*/**/*.wgsl")))
    return {path.stem: path.as_posix() for path in files if path.parts[0] != "lib"}


class ShaderLibrary:
    """Assembler of shaders, with a cache."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or shader_folder()
        self._kernels = kernel_files(self._folder)
        self._files: dict[str, str] = {}
        self._shaders: dict[tuple[str, Types], Shader] = {}

    def assemble(self, kernel: str, types: Types) -> Shader:
        """Return the shader of `kernel` with every `${NAME}` replaced."""
        if (kernel, types) not in self._shaders:
            self._shaders[kernel, types] = self._assemble(kernel, types)
        return self._shaders[kernel, types]

    def _assemble(self, kernel: str, types: Types) -> Shader:
        replacements = dict(types)
        half = any("f16" in value for value in replacements.values())

        def replace(match: re.Match[str]) -> str:
            try:
                return replacements[match[1]]
            except KeyError:
                raise ShaderError(f"{kernel}.wgsl: no replacement for {match[0]}") from None

        file = self._kernels.get(kernel, f"{kernel}.wgsl")
        code = _NAME.sub(replace, self._read(file, half, replacements))
        if half:
            code = "enable f16;\n" + code
        if any(_SIZED in value for value in replacements.values()):
            code = "enable subgroup_size_control;\n" + code
        found = _BINDING.findall(code)
        if [int(index) for index, *_ in found] != list(range(len(found))):
            raise ShaderError(f"{kernel}.wgsl: its @binding lines are not numbered 0, 1, 2, ...")
        aliases = dict(_ALIAS.findall(code))
        return Shader(code, tuple(_variable(kernel, aliases, *line) for _, *line in found))

    def _read(self, name: str, half: bool, replacements: Mapping[str, str] | None = None) -> str:
        """Return a file with the files that it uses, except for unknown names."""
        known = replacements or {}

        def use(match: re.Match[str]) -> str:
            used = _NAME.sub(lambda found: known.get(found[1], found[0]), match[1])
            if "$" in used:
                return match[0]
            return self._read(used, half, known) if half or not match[2] else ""

        if name not in self._files:
            path = self._folder / name
            if not path.is_file():
                raise ShaderError(f"{name}: there is no such shader in {self._folder.name}/")
            self._files[name] = path.read_text(encoding="utf-8")
        return _USE.sub(use, self._files[name])


def _variable(kernel: str, aliases: dict[str, str], access: str, name: str, wgsl: str) -> Variable:
    if access == "uniform":
        return Variable(name, access, (_scalar_of(wgsl, aliases) or "") if "array" in wgsl else "")
    scalar = _scalar_of(wgsl, aliases)
    if scalar is None:
        raise ShaderError(f"{kernel}.wgsl: {name} is {wgsl}, but storage holds arrays of numbers")
    return Variable(name, _ACCESS[access], scalar)


def _scalar_of(wgsl: str, aliases: dict[str, str]) -> str | None:
    """Return the scalar type inside a type, f32 for array<vec4<f32>>; None if mixed."""
    if wgsl in _SCALARS.values():
        return wgsl
    if short := _SHORT_VECTOR.fullmatch(wgsl):
        return _SCALARS[short[1]]
    if composite := _COMPOSITE.fullmatch(wgsl):
        item = composite[1]
        size = item.find(", ", item.rfind(">") + 1)
        return _scalar_of(item[:size] if size > 0 else item, aliases)
    return _scalar_of(aliases[wgsl], aliases) if wgsl in aliases else None
