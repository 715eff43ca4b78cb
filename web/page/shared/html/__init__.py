"""HTML of the page: markup, tables, fields, and the fixed parts."""
