"""LoRA: weights of low rank that change a loaded program's results, switched between calls."""
