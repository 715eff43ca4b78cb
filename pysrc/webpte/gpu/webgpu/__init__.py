"""The browser's GPU: JavaScript that encodes, submits and waits, and its face in Python."""
