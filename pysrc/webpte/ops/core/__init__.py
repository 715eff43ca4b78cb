"""Parts that all operator families share: the registry, arguments, records, layouts."""
