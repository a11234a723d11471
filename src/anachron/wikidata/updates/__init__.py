"""The facts that became new, obsolete or stayed between two snapshots of Wikidata (WikiFactDiff)."""
