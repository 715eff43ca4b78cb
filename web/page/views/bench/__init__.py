"""The bench: times of sample programs and of the open one, to keep, to share and to compare.

panel    the view            measure  the measurements  result  the result as JSON and as a link
"""
