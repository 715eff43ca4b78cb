"""Pictures of pages to text: regions of text, their crops, and their letters."""
