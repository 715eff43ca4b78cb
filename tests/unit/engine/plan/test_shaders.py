"""WGSL files: included, filled in, and their bindings read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.harness.every import check_every
from webpte.engine.ops.elementwise import binary, unary
from webpte.engine.ops.move import view
from webpte.engine.plan.shaders import Shader, ShaderLibrary, kernel_files, shader_folder
from webpte.errors import ShaderError


def library(folder: Path, **files: str) -> ShaderLibrary:
    (folder / "lib").mkdir()
    for name, text in files.items():
        (folder / f"{name.replace('__', '/')}.wgsl").write_text(text, encoding="utf-8")
    return ShaderLibrary(folder)


BINDINGS = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<${TYPE}>;
@group(0) @binding(2) var<uniform> params: Params;
"""


def test_bindings_are_read_from_the_text(tmp_path: Path) -> None:
    shader = library(tmp_path, kernel=BINDINGS).assemble("kernel", (("TYPE", "i32"),))
    assert shader.bindings == ("read", "write", "uniform")
    assert "array<i32>" in shader.code
    assert "${" not in shader.code


@pytest.mark.parametrize(
    ("wgsl", "scalar"),
    [
        ("f32", "f32"),
        ("atomic<u32>", "u32"),
        ("vec4<f16>", "f16"),
        ("vec2u", "u32"),
        ("vec4h", "f16"),
        ("vec3i", "i32"),
        ("array<vec2<i32>, 4>", "i32"),
        ("quad_f16", "f16"),
        ("Item", "f16"),
    ],
)
def test_scalars_are_read_from_the_text(tmp_path: Path, wgsl: str, scalar: str) -> None:
    aliases = "alias Item = Quad; // four\nalias Quad = quad_f16;\nalias quad_f16 = vec4<f16>;\n"
    shaders = library(tmp_path, kernel=aliases + BINDINGS)
    shader = shaders.assemble("kernel", (("TYPE", wgsl),))
    assert [variable.name for variable in shader.variables] == ["x", "y", "params"]
    assert [variable.scalar for variable in shader.variables] == ["f32", scalar, ""]


@pytest.mark.parametrize("wgsl", ["Params", "bool", "array<vec4<Params>>", "vec5<f32>"])
def test_storage_that_is_not_numbers(tmp_path: Path, wgsl: str) -> None:
    shaders = library(tmp_path, kernel=BINDINGS)
    with pytest.raises(ShaderError, match=rf"kernel\.wgsl: y is array<{wgsl}>, but storage holds"):
        shaders.assemble("kernel", (("TYPE", wgsl),))


def test_use_lines_are_replaced_also_inside_of_libraries(tmp_path: Path) -> None:
    shaders = library(
        tmp_path,
        kernel="// use lib/a.wgsl\nfn main() {}\n",
        lib__a="// use lib/b.wgsl\nfn a() -> ${T} {}\n",
        lib__b="fn b() {}\n",
    )
    code = shaders.assemble("kernel", (("T", "f32"),)).code
    assert "// use" not in code
    assert code.index("fn b()") < code.index("fn a() -> f32") < code.index("fn main()")


def test_only_whole_lines_are_use_lines(tmp_path: Path) -> None:
    text = "fn main() {} // use lib/none.wgsl\n  // use lib/none.wgsl\n"
    assert library(tmp_path, kernel=text).assemble("kernel", ()).code == text


def test_a_missing_substitution_is_named(tmp_path: Path) -> None:
    shaders = library(tmp_path, kernel=BINDINGS)
    with pytest.raises(ShaderError, match=r"kernel\.wgsl: no replacement for \$\{TYPE\}"):
        shaders.assemble("kernel", (("OTHER", "i32"),))


@pytest.mark.parametrize("name", ["nothing", "lib/nothing"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    shaders = library(tmp_path, kernel="// use lib/nothing.wgsl\n")
    kernel = "kernel" if name.startswith("lib") else name
    with pytest.raises(ShaderError, match=rf"{name}\.wgsl: there is no such shader"):
        shaders.assemble(kernel, ())


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 0, 1)])
def test_bindings_must_count_up(tmp_path: Path, order: tuple[int, ...]) -> None:
    text = "".join(
        f"@group(0) @binding({index}) var<storage, read> x{at}: array<f32>;\n"
        for at, index in enumerate(order)
    )
    with pytest.raises(ShaderError, match="are not numbered 0, 1, 2"):
        library(tmp_path, kernel=text).assemble("kernel", ())


def test_shaders_are_assembled_once(tmp_path: Path) -> None:
    shaders = library(tmp_path, kernel=BINDINGS)
    first = shaders.assemble("kernel", (("TYPE", "i32"),))
    assert shaders.assemble("kernel", (("TYPE", "i32"),)) is first
    assert shaders.assemble("kernel", (("TYPE", "u32"),)) != first


def test_files_are_read_once(tmp_path: Path) -> None:
    shaders = library(tmp_path, kernel="// use lib/a.wgsl\n", lib__a="fn a() -> ${T} {}\n")
    shaders.assemble("kernel", (("T", "f32"),))
    (tmp_path / "lib" / "a.wgsl").unlink()
    (tmp_path / "kernel.wgsl").unlink()
    assert "fn a() -> i32 {}" in shaders.assemble("kernel", (("T", "i32"),)).code


TYPES = {
    "unary": {"COMPUTE": "f32", "FORMULA": "x", "IN": "f32", "OUT": "f32", "RESULT": "f32"},
    "binary": {
        "COMPUTE": "i32",
        "FORMULA": "x",
        "X": "i8",
        "Y": "u8",
        "OUT": "i32",
        "RESULT": "i32",
    },
    "view": {},
}
BINDINGS_OF = {
    "unary": ("read", "write", "uniform"),
    "binary": ("read", "read", "write", "uniform"),
    "view": ("read", "write", "uniform"),
}


@pytest.mark.parametrize("kernel", ["unary", "binary", "view"])
def test_our_shaders(kernel: str) -> None:
    types = TYPES[kernel] | {"SCALAR": "f32"}
    shader: Shader = ShaderLibrary().assemble(kernel, tuple(types.items()))
    assert shader.bindings == BINDINGS_OF[kernel]
    assert "fn main(" in shader.code
    assert "// use" not in shader.code


def test_a_file_is_chosen_by_a_replacement(tmp_path: Path) -> None:
    shaders = library(
        tmp_path, kernel="// use lib/${HOW}.wgsl\n", lib__a="fn a() {}\n", lib__b="fn b() {}\n"
    )
    assert "fn a" in shaders.assemble("kernel", (("HOW", "a"),)).code
    assert "fn b" in shaders.assemble("kernel", (("HOW", "b"),)).code
    with pytest.raises(ShaderError, match="HOW"):
        shaders.assemble("kernel", ())
    with pytest.raises(ShaderError, match="no such shader"):
        shaders.assemble("kernel", (("HOW", "c"),))


def test_every_family_has_its_shader() -> None:
    for module in (unary, binary, view):
        name = module.__name__.rpartition(".")[2]
        assert name in kernel_files(shader_folder())


_OVERRIDE = re.compile(r"^override (\w+)", re.MULTILINE)
_SHARED = re.compile(r"var<workgroup> (\w+): ([^;]+);")
_DEFINED = re.compile(r"^(?:alias (\w+) =|struct (\w+) )([^;}]+)[;}]", re.MULTILINE)


def sized_by_overrides(code: str) -> set[str]:
    """The variables in workgroup memory whose type has to do with an override constant."""
    overrides = set(_OVERRIDE.findall(code))
    defined = {alias or struct: text for alias, struct, text in _DEFINED.findall(code)}

    def names_in(text: str) -> set[str]:
        names = set(re.findall(r"[A-Za-z_]\w*", text))
        return names.union(*(names_in(defined[name]) for name in names & defined.keys()))

    return {name for name, text in _SHARED.findall(code) if names_in(text) & overrides}


def test_an_array_that_is_sized_by_an_override_is_found() -> None:
    code = """
override QUADS: u32;
alias Line = array<f32, 2u * QUADS>;
struct Held { line: Line, }
var<workgroup> plain: array<f32, QUADS>;
var<workgroup> held: array<Held, 4>;
var<workgroup> other: array<f32, ROWS>;
"""
    assert sized_by_overrides(code) == {"plain", "held"}


def test_no_workgroup_memory_is_sized_by_an_override() -> None:
    """Not every browser takes that: docs/inside/extending.md says what happens there."""

    def check(file: str) -> None:
        assert sized_by_overrides(ShaderLibrary()._read(file, half=True)) == set()

    check_every(kernel_files(shader_folder()).values(), check)
