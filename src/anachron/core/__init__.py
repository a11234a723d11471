"""Dates, periods, facts, temporal contexts and errors. Standard library only."""
