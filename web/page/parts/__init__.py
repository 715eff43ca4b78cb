"""Fixed parts of the page as HTML: inputs, outputs, runs, files, the status line."""
