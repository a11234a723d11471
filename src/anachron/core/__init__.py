"""Dates, periods, facts and temporal contexts. Standard library only."""
