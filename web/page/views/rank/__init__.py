"""The view that ranks sentences."""
