"""Makes the samples that ship with the page: data, training and export. Runs on the host, never in the browser."""
