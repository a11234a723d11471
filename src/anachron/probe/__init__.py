"""Probing: resumable runs over a data set, and the metrics computed from their scores."""
