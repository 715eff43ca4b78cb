"""Outputs of a program: what is drawn of an array."""
