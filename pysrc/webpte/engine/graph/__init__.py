"""A delegate's graph as exported, and its live state while shapes change."""
