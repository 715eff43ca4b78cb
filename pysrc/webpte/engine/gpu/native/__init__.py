"""This machine's GPU through Dawn, from CPython."""
