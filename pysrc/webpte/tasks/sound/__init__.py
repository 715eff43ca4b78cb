"""Tasks of sounds."""
