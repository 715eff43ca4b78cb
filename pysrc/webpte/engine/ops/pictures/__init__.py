"""Pictures of bytes: their scaling, and their colours as a model takes them."""
