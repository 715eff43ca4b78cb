"""Several pictures at once, and the table of their answers."""
