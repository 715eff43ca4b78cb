"""The compare view: a run against NumPy, call by call.

panel     messages of the page             settings     tolerances, as typed
expected  matches files with outputs       diff_map     where two arrays differ
calls     the table of calls               drift_chart  how differences add up
markup    the rest of the view
"""
