"""Recipes: a module per model, with a `RECIPE`. They import torch only inside of `build`."""
