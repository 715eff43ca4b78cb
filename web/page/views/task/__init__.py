"""The view of tasks: the inputs of a model of `webpte.tasks`, and its result in a readable form.

panel.py     the panel: inputs, answers, files to save
asked.py     the inputs and the answer, of one program
markup.py    the input's part of the panel
results/     ways to show a result, chosen by its fields
"""
