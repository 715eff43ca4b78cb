"""The package for npm: its Python, which runs in the worker, beside its JavaScript."""
