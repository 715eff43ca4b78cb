"""Programs compiled for web pages: folders that run without Python."""

from webpte.compiling.compile_program import Compiled, compile

__all__ = ["Compiled", "compile"]
