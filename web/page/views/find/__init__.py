"""The view that finds objects in pictures."""
