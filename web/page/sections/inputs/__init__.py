"""The inputs of the program: their cards, controls and files."""
