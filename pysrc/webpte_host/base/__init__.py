"""Parts that all commands share: errors, the layout of a checkout, processes, progress."""
