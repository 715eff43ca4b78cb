"""The local web server: archives, routes, cards, addresses that never change."""
