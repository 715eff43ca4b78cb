"""Operators that move, select or create elements without computing with them."""
