"""Renderers of outputs: each module has one `RENDERER`, and `choose` lists them.

`base` has the interface and a renderer's sources: the array, its labels, its card and the
input picture; `session/output_contexts.py` collects these. Settings (a plane, a threshold) are
short texts by name, which are kept with the program.

overview  a little of everything     scores   the highest values
picture   pixels                     mask     marked pixels over the input picture
boxes     boxes over that picture    heat     a plane in colours
curve     lines                      table    all values
"""
