"""The graph view.

panel     messages of the page             choices  what people have set
outline   boxes, folded or not             tints    their colours
drawn     the diagram as data              boxes    the list
inside    details of a call                seen     values of a call
stages    optimized and original, linked   names    of values, for people
runs      traces and runs for values       controls the controls above the graph

In `drawing/`: `layout_worker.js` (with `ranks.js`) computes positions, `drawing.js` draws,
`scene.js` has the places of boxes, `shapes.js` their looks, `camera.js` the view, `svg_file.js`
makes a file.
"""
