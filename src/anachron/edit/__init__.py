"""Updating facts in a model."""
