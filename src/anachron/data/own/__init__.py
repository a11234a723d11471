"""A user's own facts: files in many forms, checked row by row, with their questions."""
