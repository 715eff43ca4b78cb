"""Language models with a KV cache: from GGUF files and Hugging Face folders to programs."""

from __future__ import annotations

from webpte_export.llm.export import export_llm

__all__ = ["export_llm"]
