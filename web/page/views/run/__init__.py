"""The view that runs a program."""
