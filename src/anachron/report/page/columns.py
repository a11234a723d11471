"""What the page calls the columns of its tables, in place of their names."""

WORDS = {
    "win_rate": "W",
    "robustness": "R",
    "logp": "log-probability",
    "n": "pairs",
    "p_clustered": "p, clustered by subject",
    "mcnemar_p": "p (McNemar)",
    "a": "also known at",
    "b": "known at",
    "known_both": "known at both",
    "known_b": "known",
    "low": "lower end",
    "high": "upper end",
    "value_low": "lowest value",
    "value_high": "highest value",
    "value_mean": "mean value",
    "robust_both": "robust in both",
    "robust_any": "robust in either",
    "jaccard": "Jaccard index",
    "mean_jaccard": "mean Jaccard index",
    "matthews": "Matthews correlation",
    "accuracy_pooled": "accuracy, pooled",
    "win_rate_difference": "difference of W",
    "robustness_difference": "difference of R",
    "crossed_difference": "difference of crossed",
    "won_all": "R_k",
    "bic_gain": "gain in BIC",
    "facts_with": "facts with an anachronism",
    "win_rate_half_ties": "W, ties worth one half",
    "win_rate_inside": "W inside the lives",
    "parameters_at_1": "parameters at R = 1",
    "lost_at_most": "lost at most",
    "fact_id": "fact id",
    "what": "what is counted",
    "factor": "property",
}
ENDINGS = {
    "_low": ", lower end", "_high": ", upper end", "_p": ", p", "_days": " (days)", "_years": " (years)",
    "_label": "",
}  # fmt: skip
BEGINNINGS = {"random_": "random ", "against_": "other run's ", "open_": "open questions: "}


def in_words(column: str) -> str:
    """A column's name for a reader: ``start_error_days`` is "start error (days)", ``believed_low`` "believed, lower
    end"."""
    if column in WORDS:
        return WORDS[column]
    for ending, words in ENDINGS.items():
        if column.endswith(ending):
            return in_words(column.removesuffix(ending)) + words
    for beginning, words in BEGINNINGS.items():
        if column.startswith(beginning):
            return words + in_words(column.removeprefix(beginning))
    return column.replace("_", " ")
