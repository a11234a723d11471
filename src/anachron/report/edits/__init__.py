"""What is written about evaluated edits: tables, figures and the page."""
