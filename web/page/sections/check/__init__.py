"""The check of a program against its expected outputs."""
