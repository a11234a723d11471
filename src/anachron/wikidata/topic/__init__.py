"""A topic without a dump: some entities and what they need, from the services of Wikidata or of another Wikibase."""
