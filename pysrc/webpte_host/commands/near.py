"""`serve.py test --near`: the tests nearest to a change, by rules for places and by the imports.

A change is the difference from the last commit in common with the main branch; on that branch, from
HEAD, or from the commit before if nothing differs. The nearest tests have the place and the name of
a changed module; then come tests that import this module, then tests that import it through others.
A package's `__init__.py` stands for the modules of the names that code takes from it.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from webpte_host.base.errors import HostError

# The imports choose at most so many files of tests, each at most so many imports away: from there
# on, a path leads through the whole library.
MOST_FILES, MOST_IMPORTS = 50, 3
_CODE = ("pysrc", "web", "tests")
_RUN = ("tests/unit/", "tests/native/", "tests/browser/", "tests/firefox/")
_OPS = "pysrc/webpte/engine/ops"
# A changed path, and the tests that follow it. The groups of the path are parts of their paths.
RULES = (
    (r"\w.*\.py", "tests/unit/test_architecture.py tests/unit/test_sizes.py"),
    (r"(?:.*/)?(\w+)\.(?:py|js|wgsl)", "tests/unit/**/test_{0}.py tests/native/**/test_{0}.py"),
    (r"pysrc/webpte/(.+)/\w+\.py", "tests/unit/{0}/test_*.py"),
    (r"pysrc/webpte_(\w+/(?:.*/)?)\w+\.py", "tests/unit/{0}test_*.py"),
    (r"wgsl/(.+)/\w+\.wgsl", "tests/unit/engine/ops/{0}/test_*.py"),
    (rf"{_OPS}/.*", "tests/unit/engine/ops/test_reference.py"),
    (r"wgsl/.*", "tests/unit/engine/plan/test_shaders.py"),
    (r"pysrc/webpte/engine/gpu/webgpu/.*", "tests/browser/device/test_conformance.py"),
    (r"pysrc/webpte/engine/browser/.*", "tests/browser/storage/test_library.py"),
    (r"pysrc/webpte/tasks/.*", "tests/unit/tasks/test_tasks.py"),
    (r"web/page/views/(\w+)/.*", "tests/unit/web/views/test_{0}*.py"),
    (r"web/page/views/(\w+)/.*", "tests/browser/views/test_{0}_view.py"),
    (r"web/(?!page/views/|npm/).*", "tests/browser/page/test_start.py"),
    (r"web/npm/.*", "tests/unit/npm/test_*.py tests/browser/programs/test_npm.py"),
    (r"(?:docs/.*|\w+)\.md", "tests/unit/docs/test_*.py"),
    (r"pyproject\.toml", "tests/unit/host/site/test_wheel.py"),
    (r"serve\.py", "tests/unit/host/test_cli.py"),
)
_BY_RULES_ALONE = {".md", ".js", ".mjs", ".css", ".html"}


@dataclass
class Near:
    """Tests near a change: the reason of each file, names of operators' tables, and the rest."""

    reasons: dict[str, str] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    farther: int = 0  # files of tests that import a changed module, left out

    def files(self, folder: str) -> list[str]:
        """Return the files in a folder of `tests`."""
        return sorted(file for file in self.reasons if file.split("/")[1] == folder)

    def lines(self) -> list[str]:
        """Describe the choice: a line for each folder and reason."""
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for file, reason in sorted(self.reasons.items()):
            groups[file.rpartition("/")[0], reason].append(file)
        found = [
            f"{files[0] if len(files) == 1 else f'{folder} ({len(files)} files)'}: {reason}"
            for (folder, reason), files in groups.items()
        ]
        if self.tables:
            found.append(f"tests/native/test_tables.py: rows of {', '.join(sorted(self.tables))}")
        if self.farther:
            found.append(f"left out, farther away: {self.farther} files of tests")
        return found


def changed_files(root: Path) -> tuple[str, list[str]]:
    """Return a description of the commit to compare with, and the files that differ from it."""
    bases = (_git(root, "merge-base", "HEAD", name) for name in ("origin/main", "main"))
    base = next(filter(None, bases), "HEAD")
    for commit in (base, "HEAD~1"):
        differ = _git(root, "diff", "--name-only", "--no-renames", commit).splitlines()
        differ += _git(root, "ls-files", "--others", "--exclude-standard").splitlines()
        if differ:
            return _git(root, "log", "-1", "--format=%h %s", commit), sorted(set(differ))
    raise HostError("--near: no file differs from the last commit, nor from the one before.")


def _git(root: Path, *arguments: str) -> str:
    """Return the output of git, or "" if it fails."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise HostError(f"--near needs git, which did not start: {error}") from error
    return done.stdout.strip() if done.returncode == 0 else ""


def choose(root: Path, changed: Collection[str]) -> Near:
    """Choose the tests near changed files, given by their paths from the root."""
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for top in _CODE
        for path in sorted((root / top).rglob("*.py"))
    }
    near = Near({path: "changed" for path in changed if _is_test(path) and path in texts})
    origins = {path: path for path in changed if path.endswith(".py")}
    for path in changed:
        for module in _modules_with(root, texts, path):
            origins.setdefault(module, path)
            if _is_test(module):
                near.reasons.setdefault(module, f"names {path}")
    for path in [*changed, *origins]:
        for test in _by_rules(root, path):
            near.reasons.setdefault(test, f"follows {origins.get(path, path)}")
    near.tables = {name for module in origins for name in _tables(root, Path(module))}
    found = [
        (away, test, reason)
        for away, test, reason in _importers(texts, origins)
        if test.startswith(_RUN[:2]) and test not in near.reasons
    ]
    taken = [(test, reason) for away, test, reason in found if away <= MOST_IMPORTS][:MOST_FILES]
    near.reasons |= dict(taken)
    near.farther = len(found) - len(taken)
    return near


def _is_test(path: str) -> bool:
    return path.startswith(_RUN) and Path(path).name.startswith("test_") and path.endswith(".py")


def _by_rules(root: Path, path: str) -> Iterator[str]:
    for pattern, tests in RULES:
        if match := re.fullmatch(pattern, path):
            for test in tests.format(*match.groups()).split():
                yield from (found.relative_to(root).as_posix() for found in root.glob(test))


def _modules_with(root: Path, texts: dict[str, str], path: str) -> list[str]:
    """Return the modules that name a file; for a shader, the modules of kernels that include it."""
    name, folder = Path(path).name, Path(path).parent
    if path.endswith(".wgsl"):
        kernels = _kernels_with(root / "wgsl", path.removeprefix("wgsl/"))
        return [
            module
            for module, text in texts.items()
            if module.startswith(_OPS) and any(f'"{kernel}"' in text for kernel in kernels)
        ]
    if path.endswith(".py") or Path(path).suffix in _BY_RULES_ALONE:
        return []
    return [
        module
        for module, text in texts.items()
        if f'"{name}"' in text and (folder.name in text or Path(module).parent == folder)
    ]


def _tables(root: Path, module: Path) -> list[str]:
    """Return the name of the table of rows for a module of operators, or of all of its family."""
    if not module.is_relative_to(_OPS) or module.parent.as_posix() == _OPS:
        return []
    folder = root / "tests/support/cases" / module.relative_to(_OPS).parts[0]
    own = folder / f"{module.stem}_cases.py"
    tables = [own] if own.exists() else sorted(folder.glob("*_cases.py"))
    return [table.stem.removesuffix("_cases") for table in tables]


def _kernels_with(folder: Path, shader: str) -> set[str]:
    """Return the names of a shader and of all that include it, also through others."""
    texts = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.wgsl")
    }
    users, new = {shader}, {shader}
    while new:
        lines = [f"// use {user}\n" for user in new]
        new = {f for f, text in texts.items() if any(line in text for line in lines)} - users
        users |= new
    return {Path(user).stem for user in users}


def _importers(texts: dict[str, str], origins: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    """Yield the tests that import the modules of `origins`, nearest first.

    Each comes with the number of imports between them, and the reason.
    """
    graph = _Imports(texts)
    seen, ring, away = set(origins), origins, 0
    while ring:
        away += 1
        following: dict[str, str] = {}
        reasons: dict[str, str] = {}
        for module, origin in ring.items():
            how = "names" if module in origins else "needs"
            through = "" if module == origin else f", which {how} {origin}"
            for file in graph.importers[_name(module)] - seen:
                following.setdefault(file, origin)
                reasons.setdefault(file, f"imports {module}{through}")
        seen |= following.keys()
        for file in sorted(following, key=lambda file: (-_shared(file, following[file]), file)):
            if _is_test(file):
                yield away, file, reasons[file]
        ring = {f: origin for f, origin in following.items() if not f.endswith("/__init__.py")}


def _shared(test: str, module: str) -> int:
    """Return the number of folders that two paths have in common, wherever they are."""
    return len(set(test.split("/")) & set(module.split("/")))


def _name(path: str) -> str:
    """Return the name by which code imports a file."""
    inside = path.partition("/")[2].removesuffix(".py").removesuffix("/__init__")
    return inside.replace("/", ".")


class _Imports:
    """The imports between files: `importers` maps a module's name to the files that import it."""

    def __init__(self, texts: dict[str, str]) -> None:
        names = {file: list(_imported(text)) for file, text in texts.items()}
        self._modules = {_name(file) for file in texts}
        self._members = {
            f"{_name(file)}.{member}": name
            for file in texts
            if file.endswith("/__init__.py")
            for member, name in names[file]
        }
        self.importers: dict[str, set[str]] = defaultdict(set)
        for file, imported in names.items():
            for _, name in imported:
                self.importers[self._module_of(name)].add(file)

    def _module_of(self, name: str) -> str:
        """Return the module that a name is, or that it is defined in, as far as packages say."""
        if name in self._modules:
            return name
        if name in self._members and self._members[name] != name:
            return self._module_of(self._members[name])
        return name.rpartition(".")[0]


def _imported(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a file imports, late ones included: as it calls them, and in full."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
