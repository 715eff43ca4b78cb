"""What the page shows and how it thinks, without a browser: every module here imports in CPython.

`markup` builds HTML that is escaped unless said otherwise; `units` writes sizes and times; `npy`
reads and writes `.npy`; `inputs` fills the arrays; `tensors` and `pictures` sum up the outputs;
`compare` holds them against expected ones; the `*_view` modules turn all that into sections of the
page. Only `main.py` talks to the browser.
"""
