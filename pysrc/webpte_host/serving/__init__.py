"""The local web server: archives, routes, cards, immutable addresses."""
