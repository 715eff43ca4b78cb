"""Rewriting a graph before it is planned: validation, passes, fusion."""
