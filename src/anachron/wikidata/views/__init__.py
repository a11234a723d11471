"""Page views, and the popularity that they make."""
