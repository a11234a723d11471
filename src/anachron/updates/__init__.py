"""What changed between two snapshots: triples aligned, labelled by rules, worded, with the facts nearest to them."""
