"""Pictures of bytes: scaling them, and converting their colours for a model."""
