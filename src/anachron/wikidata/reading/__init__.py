"""A dump to a snapshot: lines of JSON to tables of statements and entities."""
