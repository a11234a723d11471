"""From Wikidata dumps and page views to snapshots, and from snapshots to facts."""
