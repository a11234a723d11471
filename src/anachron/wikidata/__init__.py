"""Wikidata dumps and page views: fetching them, and reading them into snapshots."""
