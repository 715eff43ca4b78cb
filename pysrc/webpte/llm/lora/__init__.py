"""LoRA: weights of low rank that change what a loaded program computes, switched between calls."""
