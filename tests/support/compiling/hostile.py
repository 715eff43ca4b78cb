"""Descriptions of tasks that are wrong, or changed anywhere: only typed errors follow."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from support.compiling.node import run

_CHANGES = """
const { check } = await import("./description.mjs");
const { openTask } = await import(`./${given.module}.mjs`);
let seed = 7;
const random = (below) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % below; };
const strange = [null, -1, 0, 1.5, 1e300, 2 ** 32, "", "x", "__proto__", [], {}, [[]], true, NaN];
const places = (value, path = []) => [path, ...(value && typeof value === "object"
    ? Object.keys(value).flatMap((key) => places(value[key], [...path, key])) : [])];
const all = places(given.table).slice(1);
const found = {};
for (let round = 0; round < 3000; round++) {
    const path = all[random(all.length)];
    const last = path.at(-1);
    const copied = (value) => (Array.isArray(value) ? [...value] : { ...value });
    const table = copied(given.table); // the rest is as it was, and not copied
    let owner = table;
    for (const key of path.slice(0, -1)) owner = owner[key] = copied(owner[key]);
    if (random(5)) owner[last] = strange[random(strange.length)];
    else if (Array.isArray(owner)) owner.splice(last, 1);
    else delete owner[last];
    let said = "taken";
    try {
        check(table);
        if (table.task) openTask({}, table);
    } catch (error) { said = error.name; }
    found[said] = (found[said] ?? 0) + 1;
}
return found;
"""


def check_changes(modules: Path, module: str, table: dict[str, Any]) -> None:
    """Change a value of a description, 3000 times: it is taken, or a FormatError.

    modules   the folder of `modules_in`
    module    the module that opens the task of the description
    """
    found = run(modules, _CHANGES, {"module": module, "table": table})
    assert set(found) <= {"taken", "FormatError"}, found
    assert found["FormatError"] > 1000


_OPEN = """
const { openTask } = await import(`./${given.module}.mjs`);
return given.tables.map((table) => {
    try { openTask({}, table); } catch (error) { return `${error.name}: ${error.message}`; }
    return "taken";
});
"""


def check_refused_task(
    modules: Path,
    module: str,
    table: dict[str, Any],
    broken: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> None:
    """Check that a description's task is taken, and refused after each change of `broken`."""

    def open_tasks(tables: list[dict[str, Any]]) -> list[str]:
        found: list[str] = run(modules, _OPEN, {"module": module, "tables": tables})
        return found

    edits = {name: partial(_edit_task, edit=edit) for name, edit in broken.items()}
    told = "FormatError: the task of the compiled program is wrong: "
    check_refused(table, edits, open_tasks, told)


def _edit_task(table: dict[str, Any], edit: Callable[[dict[str, Any]], Any]) -> None:
    edit(table["task"])


def check_refused(
    table: dict[str, Any],
    broken: Mapping[str, Callable[[dict[str, Any]], Any]],
    check: Callable[[list[dict[str, Any]]], list[str]],
    told: str = "FormatError: ",
) -> None:
    """Check that a description is taken, and refused after each change of `broken`.

    check  returns "taken" or the error for each description
    told   how each error begins
    """
    tables = [table]
    for edit in broken.values():
        tables.append(copy.deepcopy(table))
        edit(tables[-1])
    taken, *refused = check(tables)
    assert taken == "taken"
    wrong = {
        name: said for name, said in zip(broken, refused, strict=True) if not said.startswith(told)
    }
    assert wrong == {}
