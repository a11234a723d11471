"""Training of what methods need before they edit."""
