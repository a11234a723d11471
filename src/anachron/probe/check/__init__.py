"""What a model knows of a user's own facts: a verdict for each, and whether a build should fail."""
