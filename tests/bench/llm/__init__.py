"""Benchmarks of language models: speculation, several answers at once, small KV caches."""
