"""The view that shows the Python code of a session."""
