"""Runs, checks and times of the program."""
