"""`serve.py models`: real models, fetched, exported, checked and installed."""
