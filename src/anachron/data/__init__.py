"""Data sets of dated statements: bundled, read from files or the hub, checked and written."""
