"""The gallery of samples and models, and the address of the page."""
