"""Operators with int8 activations and int8 weights."""
