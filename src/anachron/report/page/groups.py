"""In what order the page shows analyses."""

GROUPS = {
    "Is it right?": (
        "summary", "sizes", "size_to_perfection", "formats", "prefixes", "comparison", "base_and_instruct", "margins",
        "overlap", "shared_knowledge", "asked", "asked_facts",
    ),
    "Where is it wrong?": (
        "believed_summary", "believed", "far_errors", "transfer", "transfer_mean", "agreement", "granularity_variance",
        "anachronism_summary", "anachronisms", "relations", "facts", "timelines",
    ),
    "What explains it?": (
        "alpha", "alpha_fine", "correlations", "factor_bins", "lifespans", "years", "dataset", "bridge", "bridge_facts",
        "conversion",
    ),
}  # fmt: skip

OTHERS = "What explains it?"  # where an analysis stands that is listed nowhere
