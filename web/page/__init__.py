"""What the page shows and how it thinks, without a browser: every module here imports in CPython.

`app` hands what people do to the desks, one for each section of the page: `open_desk`, `file_desk`,
`input_desk`, `run_desk` and `output_desk`. They share a `stage`, on which there is one `session`: a
program, its inputs, its results and the `history` of its calls, which matters if it keeps `state`.
A session is replaced only by a complete one, and its `runner` lets one thing at a time use the
program. `browser` is the seam that `main.py` fills.

`gallery_desk` opens `cards`, with labels and an example, and keeps the address; `remembered` sets
inputs as they were on the last visit. `library/` is what the browser keeps, `waiting` what a run
waits for, and `compiling` what all other work does.

What can be done is also in the `palette`, whose rows desks and views add; what is taken away is
offered back by `undo`.

Everything beside that is a view: a tab and a panel, declared as `view` says in a module in `views/`
and looked after by `view_desk`. The stage announces what has changed, and views follow.

`inputs` holds what goes in: `fills` makes arrays by rule, `typed` reads what is typed, `photos`
makes arrays of pictures and drawings, `sounds` of sounds; `input_controls` does what the controls
of an input say, `placing` finds the input for a dropped file, `pinning` the size that made a run
fail. `npy` reads and writes `.npy`; `tensors`, `scores`, `pictures` and `curves` sum up arrays,
`looks/` are the ways to see an output, `compare` holds outputs against expected ones. The `*_view`
modules turn all that into sections of the page, with `markup`, which escapes unless told otherwise,
`units`, and what sections share: `fields`, `tables` and `figures`.
"""
