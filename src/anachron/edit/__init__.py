"""Updating facts in a model: what an edit is, where it is put, and one module a method."""
