"""The HTTP server of OpenAI's API: its command, and the application."""
