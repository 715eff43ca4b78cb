"""Links to the open program, and code that embeds it."""
