"""A run against NumPy, call by call: `settings` is what people choose for it, `expected` finds the
output that a file is for, `diff_map` draws where two arrays differ and `drift_chart` how that adds
up, `calls` is the table of all calls and `markup` the rest. `views/compare/panel.py` brings it to
the page.
"""
