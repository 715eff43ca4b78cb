"""Pooling in one, two and three dimensions."""
