"""Models behind a server, which score without their weights here."""
