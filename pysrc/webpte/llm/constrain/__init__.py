"""Constrained generation: regular expressions and JSON schemas as token masks."""
