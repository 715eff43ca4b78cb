"""A view to copy: `cp -r _skeleton NAME`, then fill in the places marked SKELETON.

The page does not show folders that begin with an underscore. docs/inside/extending.md explains
every part.
"""
