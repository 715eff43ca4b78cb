"""Programs that train: the method `learn`, which computes a step of LoRA of a language model."""
