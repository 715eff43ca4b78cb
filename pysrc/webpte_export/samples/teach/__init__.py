"""The sample `teach`: a classifier that learns the user's drawings in the page."""
