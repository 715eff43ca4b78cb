"""Programs that train: the method `learn`, a LoRA training step of a language model."""
