"""`serve.py build`: the page as a static site for any host, or the package for npm."""

from __future__ import annotations

import argparse
from pathlib import Path

from webpte_host.base.progress import Display, megabytes
from webpte_host.models.store import ModelStore
from webpte_host.setup.runtime import ensure_runtime
from webpte_host.site import build_notebooks, build_npm, build_site
from webpte_host.site.reference import write_docs


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="serve.py build",
        description="Writes the page, the browser runtime, the wheel and the installed models as a "
        "static site. Its addresses are relative: it works on any host, in any folder. A service "
        "worker adds the headers that isolate the page, and caches the site for use offline.",
    )
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="the folder to write; an earlier site is replaced"
    )
    parser.add_argument(
        "--without-models", action="store_true", help="leave out the models of `serve.py models`"
    )
    parser.add_argument(
        "--notebooks", action="store_true", help="add JupyterLite and the notebooks of docs/"
    )
    parser.add_argument(
        "--docs", action="store_true", help="add the documentation and the API reference"
    )
    parser.add_argument(
        "--address",
        default="",
        metavar="URL",
        help="where the site will be: links to it then show a picture everywhere",
    )
    parser.add_argument(
        "--npm", action="store_true", help="write the package for npm instead of the site"
    )
    options = parser.parse_args(arguments)
    if options.npm:
        if options.notebooks or options.docs or options.without_models or options.address:
            parser.error("--npm writes a package alone, without other parts")
        build_npm.build(options.out)
        return 0
    models = None if options.without_models else ModelStore()
    build(
        options.out,
        models,
        notebooks=options.notebooks,
        docs=options.docs,
        address=options.address,
    )
    return 0


def build(
    out: Path,
    models: ModelStore | None,
    *,
    notebooks: bool = False,
    docs: bool = False,
    address: str = "",
    display: Display | None = None,
) -> None:
    """Build the site under a temporary name, and rename it when complete. Raises HostError."""
    out = out.resolve()
    build_site.SITE.check(out)
    display = display or Display()
    runtime = ensure_runtime(display, compile_edits=True)
    with build_site.SITE.written(out) as site:
        facts = ("./docs/" if docs else "", address)
        wheel = _write(site, runtime, models, facts, display)
        later = build_notebooks.write_notebooks(site, wheel, display) if notebooks else []
        if docs:
            write_docs(site / "docs", display)
            later = [*later, "docs/"]
        _finish(site, later, display)
    display.line(f"The site is in {out}. To look at it: python3 -m http.server -d {out}")


def _write(
    site: Path,
    runtime: Path,
    models: ModelStore | None,
    facts: tuple[str, str],
    display: Display,
) -> Path:
    """Write the parts of every site; return the path of its wheel. `facts` are the addresses of
    the documentation and of the site, or ""."""
    with display.stage("The page and the browser runtime"):
        build_site.write_page(site, runtime, docs=facts[0], address=facts[1])
    with display.stage("Models and gallery") as stage:
        count = build_site.write_models(site, models)
        stage.outcome = f"{count} installed"
    with display.stage("The wheel"):
        return build_site.write_wheel(site)


def _finish(site: Path, later: list[str], display: Display) -> None:
    with display.stage("Service worker and compressed files") as stage:
        build_site.write_worker(site, later)
        build_site.compress(site)
        files = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
        stage.outcome = f"{len(files)} files, {megabytes(sum(files))}"
