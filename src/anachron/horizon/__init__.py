"""Until when a model learned: a curve of what it knows of changes by their date, and a test for leaks after a date."""
