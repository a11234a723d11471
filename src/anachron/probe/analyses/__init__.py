"""One function a table: from score tables and per-fact metrics to a tidy table."""
