"""Names around tool calls in the query era."""
