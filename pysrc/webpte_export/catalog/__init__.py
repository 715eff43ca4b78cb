"""Real models, each with a recipe: the place of its weights, and the code that exports them.

    ../recipes/  one small file per model; they import in any Python
    ../networks/ the networks in PyTorch, and readers of ONNX, TFLite and ncnn files
    recipe.py    the parts of a recipe
    ../all_recipes.py  finds all recipes
    ../make.py   builds and exports a model, in the export environment

`python3 serve.py models` is the command; docs/use/export.md explains how to add a model.
"""

from __future__ import annotations

from webpte_export.catalog.recipe import LanguageModel, Network, Recipe, Value, Wheel

__all__ = ["LanguageModel", "Network", "Recipe", "Value", "Wheel"]
