"""Training in the tab: a classifier of a user's examples, and LoRAs of language models.

    learner = webpte.training.Learner(program)  # methods `learn` and `predict`
    trainer = webpte.training.LoraTrainer(program, tokenizer)  # methods `learn` and `forward`

See docs/start/samples.md (teach) and docs/use/training.md.
"""

from __future__ import annotations

from webpte.training.learner import Form, Learner, can_be_taught, form_of
from webpte.training.lines import Line, LineTokens
from webpte.training.lora_files import SavedLora
from webpte.training.lora_form import LoraForm, can_train_lora, lora_form, lora_rank
from webpte.training.lora_trainer import LoraTrainer

__all__ = [
    "Form",
    "Learner",
    "Line",
    "LineTokens",
    "LoraForm",
    "LoraTrainer",
    "SavedLora",
    "can_be_taught",
    "can_train_lora",
    "form_of",
    "lora_form",
    "lora_rank",
]
