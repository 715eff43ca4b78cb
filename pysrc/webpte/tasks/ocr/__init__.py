"""Pictures of pages to text: regions of text, their crops, and the letters in them."""
