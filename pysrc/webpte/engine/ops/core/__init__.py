"""Core of all operator families: the registry, arguments, records, layouts."""
