"""One module an analysis: its table, its finding's words and its drawing."""
