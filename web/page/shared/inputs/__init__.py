"""Inputs of a program: from files, drawings, sounds and text to arrays."""
