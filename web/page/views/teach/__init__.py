"""The teach view: `panel` handles messages, `lesson` holds examples and weights, `drawings`
centres and varies drawings, `markup` shows all of it."""
