"""What the browser keeps of this page: `keeping` files, a `desk` for the list that `markup` draws,
and the `last` session, so that a reload goes on where the page was."""
