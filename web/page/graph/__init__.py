"""The graph: `outline` says which boxes a method has, when some are folded or one is looked for,
`boxes` draws them, and `inside` what one of them shows when it is opened. `views/graph.py` brings
it to the page.
"""
