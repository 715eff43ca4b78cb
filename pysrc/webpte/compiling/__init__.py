"""Programs compiled for web pages: folders that run without Python."""

from webpte.compiling.compile import Compiled, compile

__all__ = ["Compiled", "compile"]
