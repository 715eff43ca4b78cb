"""The search for the nearest of many vectors."""
