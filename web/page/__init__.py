"""The page without a browser: every module here imports in CPython.

app.py        passes each message of the page to the controller or view that handles it
browser.py    the interface to the browser, which `main.py` implements
controllers/  one per section: opening, gallery, library, inputs, runs, outputs, tabs
session/      the open program (`session`), its runs (`runner`, `history`), and the `AppState` that
              controllers and views share; `palette` and `undo`
inputs/       arrays from rules, typed text, pictures, drawings, sounds and dropped files
outputs/      summaries of arrays; `renderers/` are the ways to show an output
cards/        cards of the gallery, and the fills of inputs
persistence/  what the browser keeps: settings, conversations, program files
parts/        sections of the page as markup
html/         markup that escapes, fields, tables, numbers as text
views/        one folder per tab, found by its place; `view.py` says what a view is
npy.py        `.npy` and `.npz` files

A session is replaced only by a complete one, and its runner lets one task at a time use the
program. `AppState.announce` tells controllers and views what has changed. docs/start/page.md has
more.
"""
