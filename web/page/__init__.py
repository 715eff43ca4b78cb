"""The page without a browser: every module here imports in CPython.

app.py      passes each message of the page to the section or view that handles it
browser.py  the interface to the browser, which `main.py` implements
core/       the open program (`session`), its runs (`runner`, `history`), and the `AppState` that
            sections and views share; `palette`, `undo`, `store`; the things that a reload restores
shared/     used by sections and views: `html/` (markup that escapes, tables, numbers as text),
            `inputs/` (arrays from rules, typed text, pictures, sounds and files), `outputs/`
            (summaries of arrays, and `renderers/`, the ways to show one), `cards/` of the gallery,
            `persistence/` (tokenizers, manifests and program files), `npy.py`
sections/   the parts of the page, a folder each: a controller and its markup; no section imports
            another, but uses it by the interfaces of `core/interfaces.py`
views/      one folder per tab, found by its place; `view.py` defines views, `_skeleton` is
            a view to copy, `tabs.py` chooses the view in front

`shared` imports no other folder, `core` only `shared`, sections and views both. A session is
replaced only by a complete one, and its runner lets one task at a time use the program.
`AppState.announce` tells sections and views the change. docs/start/page.md has more.
"""
