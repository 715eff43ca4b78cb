"""Imports point one way, and only two folders of the engine use JavaScript: shapes of the code."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import webpte
from webpte import errors
from webpte.engine.ops import lookup, registered_names
from webpte.engine.ops.core import quads
from webpte.engine.ops.move import view

PACKAGE = Path(webpte.__file__).parent
ROOT = PACKAGE.parent.parent
SHADERS = ROOT / "wgsl"


@dataclass(frozen=True)
class Import:
    """An import of `target` in `module`; `late` if it is inside of a function."""

    module: str
    target: str
    late: bool


# A unit is a folder or module of the engine, another shelf, or a module of the package itself. It
# may import units before it; circles between the folders inside of a unit have a separate test.
ORDER = (
    *("_names", "errors", "engine.files", "engine.dtypes", "engine.shapes"),
    *("engine.format", "engine.graph", "engine.xnnpack"),
    *("engine.ops", "engine.portable", "engine.rewrite", "engine.plan"),
    *("engine.browser", "engine.gpu", "engine.open", "engine.call", "engine.load", "engine.run"),
    *("hub", "inspection", "program", "loading", "llm", "tasks", "training"),
    *("compiling", "webpte"),
)
# Each package of pysrc, and the packages that it may import.
PACKAGES: dict[str, set[str]] = {
    "webpte": set(),
    "webpte_serve": {"webpte"},
    "webpte_export": {"webpte"},
    "webpte_host": {"webpte", "webpte_serve", "webpte_export"},
}
# Only modules of these folders need a browser, and only late imports reach them from elsewhere.
OF_BROWSER = ("webpte.engine.browser.", "webpte.engine.gpu.webgpu.")
BROWSER_ONLY = {
    "webpte.engine.browser.scripts",
    "webpte.engine.gpu.webgpu.device",
    "webpte.engine.gpu.webgpu.pending_requests",
    "webpte.engine.browser.files",
    "webpte.engine.browser.hub_api",
    "webpte.engine.browser.cached_file",
    "webpte.engine.browser.opfs_cache",
    "webpte.engine.browser.settings_store",
    "webpte.engine.browser.libraries",
    "webpte.engine.browser.pictures",
}
MAY_IMPORT_LATE = {
    "webpte.engine.gpu.tuning_cache",
    "webpte.engine.open.hub",
    "webpte.engine.open.library",
    "webpte.engine.open.open_source",
    "webpte.engine.gpu.devices",
    "webpte.engine.open.libraries",
    "webpte.tasks.vision.picture_files",
}
# The device on this machine's GPU, and the only module that knows the optional package for it.
NATIVE, BINDING = (
    "webpte.engine.gpu.native.device",
    Import("webpte.engine.gpu.native.dawn", "pydawn", True),
)
# The only module that knows Jinja, an optional package; others import it where Jinja is installed.
TEMPLATES = "webpte.llm.text.sandbox"
# Constraints do without llguidance, so a missing package is no error.
GUIDANCE = Import("webpte.llm.constrain.guidance", "llguidance", True)
JAVASCRIPT = {"js", "pyodide", "pyodide_js", "pyscript", "webpte_scripts"}


def module_files(package: Path) -> dict[str, Path]:
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path
    return found


MODULES = module_files(PACKAGE)


def imports_of(module: str, modules: dict[str, Path] = MODULES) -> Iterator[Import]:
    for node, late in outline(modules[module].read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, late)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            assert node.module is not None
            for alias in node.names:
                # `from webpte import errors` imports a module, `from webpte.x import Y` a name.
                full = f"{node.module}.{alias.name}"
                target = full if full in modules else node.module
                yield Import(module, target, late)


@cache
def outline(code: str) -> list[tuple[ast.AST, bool]]:
    """List the imports and classes of a module, and whether they are inside of a function."""
    tree = ast.parse(code)
    kinds = ast.Import | ast.ImportFrom | ast.ClassDef
    return [found for found in _statements(tree.body, False) if isinstance(found[0], kinds)]


def _statements(body: Sequence[ast.AST], late: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield all statements, and whether they are inside of a function.

    Expressions, which are most of a tree, have no imports.
    """
    for node in body:
        yield node, late
        inside = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(inner := getattr(node, part, None), list):
                yield from _statements(inner, inside)


@cache
def all_imports() -> list[Import]:
    return [found for module in MODULES for found in imports_of(module)]


def unit_of(module: str) -> str:
    """Return the unit of ORDER that a module of webpte belongs to."""
    _, *inside = module.split(".")
    return ".".join(inside[: 2 if inside[:1] == ["engine"] else 1]) or module


def folder_of(module: str, modules: dict[str, Path]) -> str:
    """Return the folder that a module is in, or the module if that is the package itself."""
    parts = module.split(".")
    inside = parts[1:] if modules[module].name == "__init__.py" else parts[1:-1] or parts[1:]
    return ".".join(inside) or parts[0]


def test_every_module_has_a_place_in_the_order() -> None:
    assert {unit_of(module) for module in MODULES} - {"engine"} == set(ORDER)


def test_imports_point_one_way() -> None:
    reversed_ones = [
        f"{found.module} imports {found.target}"
        for found in all_imports()
        if found.target.partition(".")[0] == "webpte"
        and unit_of(found.module) != unit_of(found.target)
        and ORDER.index(unit_of(found.module)) < ORDER.index(unit_of(found.target))
    ]
    assert reversed_ones == []


def test_packages_import_only_those_below_them() -> None:
    assert PACKAGES.keys() == {path.parent.name for path in (ROOT / "pysrc").glob("*/__init__.py")}
    wrong = []
    for package, below in PACKAGES.items():
        modules = module_files(ROOT / "pysrc" / package)
        for found in (found for module in modules for found in imports_of(module, modules)):
            other = found.target.partition(".")[0]
            if other in PACKAGES and other != package and other not in below:
                wrong.append(f"{found.module} imports {found.target}")
    assert wrong == []


def test_the_walk_sees_imports() -> None:
    """Otherwise the tests around it could not fail."""
    graph, devices = "webpte.engine.graph", "webpte.engine.gpu.devices"
    assert Import(f"{graph}.live_state", f"{graph}.graph", False) in all_imports()
    assert Import("webpte", "webpte.errors", False) in all_imports()
    assert Import(devices, "webpte.engine.gpu.webgpu.device", True) in all_imports()
    assert unit_of("webpte.engine.gpu.webgpu.device") == "engine.gpu"
    assert [unit_of(name) for name in ("webpte", "webpte.errors")] == ["webpte", "errors"]


# Every package, the page included.
ALL_PACKAGES = [*sorted((ROOT / "pysrc").glob("webpte*")), ROOT / "web/page", ROOT / "web/npm"]
Graph = dict[str, set[str]]


def module_graph(package: Path) -> Graph:
    """Map each module of a package to its imports, late and for types only included."""
    modules = module_files(package)
    graph: Graph = {module: set() for module in modules}
    for module in modules:
        targets = {found.target for found in imports_of(module, modules)}
        graph[module] = (targets & modules.keys()) - {module}
    return graph


def folder_graph(package: Path) -> Graph:
    """Map each folder of a package to the folders that its modules import from.

    Late imports from folders inside of it do not count: so a folder chooses among its devices.
    """
    modules = module_files(package)
    graph: Graph = {}
    for module in modules:
        unit = folder_of(module, modules)
        found = graph.setdefault(unit, set())
        for one in imports_of(module, modules):
            if one.target in modules:
                other = folder_of(one.target, modules)
                if other != unit and not (one.late and other.startswith(f"{unit}.")):
                    found.add(other)
    return graph


def circle_in(graph: Graph) -> list[str]:
    """Return a circle of a graph, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", ALL_PACKAGES, ids=lambda path: path.name)
def test_no_modules_import_each_other(package: Path) -> None:
    assert not circle_in(module_graph(package))


@pytest.mark.parametrize("package", ALL_PACKAGES, ids=lambda path: path.name)
def test_no_folders_import_each_other(package: Path) -> None:
    assert not circle_in(folder_graph(package))


def test_circles_are_found(tmp_path: Path) -> None:
    package = tmp_path / "some"
    (package / "low").mkdir(parents=True)
    for name, text in {
        "__init__.py": "from some.high import run",
        "high.py": "from some.low import a",
        "low/a.py": "from typing import TYPE_CHECKING",
        "low/b.py": "from some.low import a",
    }.items():
        (package / name).write_text(text)
    assert not circle_in(module_graph(package))
    (package / "low" / "a.py").write_text("if TYPE_CHECKING:\n    from some.low.b import B\n")
    assert set(circle_in(module_graph(package))) == {"some.low.a", "some.low.b"}
    assert not circle_in(folder_graph(package))
    (package / "low" / "b.py").write_text("def run():\n    import some.high\n")
    assert set(circle_in(folder_graph(package))) == {"high", "low"}
    (package / "low" / "inner").mkdir()
    (package / "low" / "inner" / "c.py").write_text("from some.low import a\n")
    (package / "low" / "b.py").write_text("def run():\n    import some.low.inner.c\n")
    assert not circle_in(folder_graph(package))
    (package / "low" / "b.py").write_text("import some.low.inner.c\n")
    assert set(circle_in(folder_graph(package))) == {"low", "low.inner"}


@pytest.mark.parametrize("package", ALL_PACKAGES, ids=lambda path: path.name)
def test_a_class_name_stands_once_in_a_package(package: Path) -> None:
    places: dict[str, list[str]] = {}
    for module, path in module_files(package).items():
        for node, _ in outline(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(f"{module}:{node.lineno}")
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_only_the_folders_of_the_browser_import_javascript() -> None:
    importers = {f.module for f in all_imports() if f.target.partition(".")[0] in JAVASCRIPT}
    assert importers == BROWSER_ONLY
    assert [module for module in importers if not module.startswith(OF_BROWSER)] == []


def test_browser_modules_are_imported_late_and_from_few_places() -> None:
    for found in all_imports():
        if found.target in BROWSER_ONLY and not found.module.startswith(OF_BROWSER):
            assert found.late, found
            assert found.module in MAY_IMPORT_LATE, found


def test_the_native_device_is_imported_late_and_from_one_place() -> None:
    assert BINDING in all_imports()
    outside = [
        f
        for f in all_imports()
        if f.target == NATIVE and not f.module.startswith("webpte.engine.gpu.native")
    ]
    assert outside == [Import("webpte.engine.gpu.devices", NATIVE, True)]


def test_the_package_needs_numpy_and_flatbuffers_and_nothing_else() -> None:
    allowed = {"numpy", "flatbuffers", "webpte"} | JAVASCRIPT
    optional = (BINDING, GUIDANCE)
    assert set(optional) <= set(all_imports())
    needed = [f for f in all_imports() if f not in optional and f.module != TEMPLATES]
    tops = {f.target.partition(".")[0] for f in needed}
    foreign = {top for top in tops - allowed if top not in _standard_library()}
    assert not foreign


def test_the_sandbox_of_templates_is_imported_late_and_from_one_place() -> None:
    importers = [f for f in all_imports() if f.target.startswith(TEMPLATES)]
    assert {(f.module, f.late) for f in importers} == {("webpte.llm.text.template", True)}


def _standard_library() -> frozenset[str]:
    import sys

    return frozenset(sys.stdlib_module_names)


def test_modules_import_in_cpython_unless_they_need_a_browser() -> None:
    failed = {}
    for module in sorted(MODULES):
        try:
            importlib.import_module(module)
        except ImportError as error:
            failed[module] = str(error)
    assert {module: failed[module] for module in failed.keys() - BROWSER_ONLY} == {}
    assert failed.keys() == BROWSER_ONLY
    missing = re.compile("No module named '(?:pyodide|js|webpte_scripts)")
    assert [text for text in failed.values() if not missing.match(text)] == []


def test_public_names_are_complete_and_sorted() -> None:
    values = {name: getattr(webpte, name) for name in {*vars(webpte), *webpte.__all__}}
    helpers = {"__future__", "typing", "webpte._names"}
    own = {
        name
        for name, value in values.items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", "typing") not in helpers
    }
    modules = {name for name in webpte.__all__ if inspect.ismodule(getattr(webpte, name))}
    assert webpte.__all__ == sorted(webpte.__all__)
    assert set(webpte.__all__) == own | modules
    assert all(getattr(webpte, name).__name__ in MODULES for name in modules)


def tree_of_errors() -> dict[str, str | None]:
    """Map each class to its parent, as the docstring of `errors` draws them."""
    tree: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^([│├└─ ]*)(\w+Error)(?:\s|$)", line)
        if match:
            depth = len(match[1]) // 4
            above = [*above[:depth], match[2]]
            tree[match[2]] = above[-2] if depth else None
    return tree


def test_the_error_tree_is_as_drawn() -> None:
    classes = {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    parents = {
        name: None if value is errors.WebpteError else value.__bases__[0].__name__
        for name, value in classes.items()
    }
    assert tree_of_errors() == parents
    assert all(value.__doc__ for value in classes.values())


def test_every_shader_is_in_the_folder_of_its_operators() -> None:
    families = {path.name for path in (PACKAGE / "engine/ops").iterdir() if path.is_dir()} | {"lib"}
    folders = {path.name for path in SHADERS.iterdir()}
    assert folders <= families, f"{folders - families}: put shaders in wgsl/FAMILY/, as ops/FAMILY/"
    stems = [
        path.stem for path in SHADERS.glob("*/**/*.wgsl") if SHADERS / "lib" not in path.parents
    ]
    assert len(stems) == len(set(stems)), "two kernels have the same name"


def test_every_op_is_written_in_a_family_module() -> None:
    wrong = []
    for name in registered_names():
        op = lookup(name)
        assert op is not None
        function = op.scalar or op.lower
        if not (
            function.__module__.startswith("webpte.engine.ops.")
            and (op.alias_of is None or op.alias_of in op.signature.positions)
            and set(op.mutates) <= op.signature.positions.keys()
        ):
            wrong.append(name)
    assert wrong == []


def test_numbers_that_stand_in_python_and_in_wgsl_agree() -> None:
    for value, file, pattern in [
        (quads.WORKGROUP_SIZE, "lib/grid.wgsl", r"const WORKGROUP_SIZE = (\d+)u;"),
        (quads.MAX_AXES, "lib/axes.wgsl", r"const MAX_AXES = (\d+)u;"),
        (view.BYTES_PER_QUAD // 4, "move/view.wgsl", r"input: array<vec(\d)<u32>>"),
    ]:
        match = re.search(pattern, (SHADERS / file).read_text(encoding="utf-8"))
        assert match is not None, file
        assert int(match[1]) == value, file
