"""Attention with a KV cache, flash attention, rotary embeddings."""
