"""The sample `words`: vectors of texts that are near where texts have words in common."""
