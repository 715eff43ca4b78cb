"""Controllers: each handles the messages of one part of the page."""
