"""Teaching in the page: `drawings` are moved to the middle and varied, `lesson` holds the examples
and what is learned of them, `markup` shows both."""
