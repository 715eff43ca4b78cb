"""The files that the browser keeps."""
