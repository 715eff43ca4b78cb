"""The sample `teach`: a classifier that learns in the page what one draws for it."""
