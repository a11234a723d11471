"""Asking a model, by scores or by answers: resumable runs, verdicts and horizons."""
