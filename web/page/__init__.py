"""What the page shows and how it thinks, without a browser: every module here imports in CPython.

`app` decides what happens, with a desk for the inputs and one for the outputs and a `runner`
between them; `browser` is the seam that `main.py` fills. `inputs` fills the arrays, `npy` reads and
writes `.npy`, `tensors` and `pictures` sum up the outputs, `compare` holds them against expected
ones. The `*_view` modules turn all that into sections of the page, with `markup`, which escapes
unless told otherwise, and `units`.
"""
