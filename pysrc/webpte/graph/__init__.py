"""Graphs of delegates as they were exported, and their state while shapes change."""
