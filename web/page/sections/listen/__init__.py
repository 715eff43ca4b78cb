"""The microphone as a stream."""
