"""Outputs of a program: the drawings of an array."""
