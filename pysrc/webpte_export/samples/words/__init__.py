"""The sample `words`: vectors of texts, near each other for texts with common words."""
