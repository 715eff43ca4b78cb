"""The graph: `choices` is what people have set, `outline` says which boxes a method has when some
are folded, `tints` their colours. `drawn` is the drawing as data, for which `layout_worker.js`
(with `ranks.js`) finds the places and `drawing.js` draws it: `scene.js` knows what is where,
`shapes.js` how it looks, `camera.js` what is in sight, `svg_file.js` makes a file. `boxes` is the
same as a list. `inside` and `seen` are what a call shows when it is opened, `controls` what stands
above. `views/graph/panel.py` brings it to the page.
"""
