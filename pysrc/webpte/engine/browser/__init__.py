"""Files, caches and libraries of a browser."""
