"""The HTTP server of OpenAI's API."""

API_KEY = "WEBPTE_API_KEY"  # the environment variable with a key that requests must send
