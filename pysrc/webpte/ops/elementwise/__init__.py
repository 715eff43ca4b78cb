"""Elementwise operators: one value in, one value out, at the same place."""
