"""Tasks of pictures."""
