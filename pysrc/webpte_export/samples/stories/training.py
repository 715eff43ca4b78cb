"""The LoRA that the sample `stories` trains in the page."""

from __future__ import annotations

from webpte_export.training.adapters import LoraOptions
from webpte_export.training.prepare import lora_training

LORA = lora_training(LoraOptions(rank=8, alpha=16.0, batch=4, length=64))
