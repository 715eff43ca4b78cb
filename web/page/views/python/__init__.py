"""The Python view: `code` writes the session as code, `console` runs cells, `panel` shows both."""
