"""GEMMs of many rows by subgroup matrices: tiles.py has their arithmetic."""
