"""Real models, each a recipe: where its weights are, and how they become a program.

    recipes/     one small file per model; they import in any Python
    networks/    the networks in PyTorch, and readers of ONNX, TFLite and ncnn files
    recipe.py    what a recipe says
    make.py      builds and exports one, in the export environment
    check_export.py  runs what was made, against PyTorch's results

`python3 serve.py models` is the way in; docs/models.md tells how to add one.
"""

from __future__ import annotations

from webpte_models.recipe import LanguageModel, Network, Recipe, Value, Wheel, all_recipes

__all__ = ["LanguageModel", "Network", "Recipe", "Value", "Wheel", "all_recipes"]
