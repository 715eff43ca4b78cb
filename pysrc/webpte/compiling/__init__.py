"""Programs compiled for web pages: folders that run without Python."""

from webpte.compiling.compile_program import Compiled, compile, compile_zip

__all__ = ["Compiled", "compile", "compile_zip"]
