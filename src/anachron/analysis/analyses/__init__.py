"""A module an analysis, or a few that share what they compute: its tidy table, its figure and its chart."""
