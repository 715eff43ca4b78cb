"""Operators on rows of several sequences, each with a slot of the KV caches."""
