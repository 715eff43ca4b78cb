"""`serve.py build` and `serve.py docs`: static sites."""
