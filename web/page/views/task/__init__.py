"""The view of tasks: what a model of `webpte.tasks` is given, and its result as people want it.

panel.py     the panel: inputs, answers, files to save
asked.py     what is given and was found, of one program
markup.py    the input's part of the panel
results/     ways to show a result, chosen by its fields
"""
