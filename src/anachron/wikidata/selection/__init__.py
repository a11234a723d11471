"""Which statements of a snapshot become facts, step by step."""
