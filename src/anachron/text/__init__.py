"""Dates in words, and questions about facts."""
