"""The sections of the page, a folder each; a section imports no other."""
