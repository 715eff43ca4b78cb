"""The view Train: a language model learns a user's own lines in this tab, as a LoRA."""
