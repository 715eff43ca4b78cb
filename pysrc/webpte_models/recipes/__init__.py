"""One module per model, with a `RECIPE`. They import in any Python: torch only inside `build`."""
