"""Ways to see an output: each is a module here with one `RENDERER`, and `choose` lists them.

`base` says what a look is and what it can use: the array, its labels, what the card tells of it,
and the picture that went in; `contexts` brings that together. What people choose (a plane, a
threshold) are short texts by name, which are remembered with the program.

`overview` has a little of everything, `scores` the highest, `picture` pixels, `mask` and `boxes`
what was found in the picture, `heat` a plane in colours, `curve` lines, `table` all the values.
"""
