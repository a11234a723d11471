"""The page ``docs/tables.md``: every table of the catalogue with its title, source, needs and columns.

Titles and sources are the catalogue's own; the words for needs and columns are here, and a test holds them against the
tables that are really made.
"""

from anachron.probe.catalogue import ANALYSES, Analysis

RUN = {
    "model": "label of the run: name, and dtype or revision where they differ",
    "format": "`raw` or `chat`",
    "prefix": "`none`, a named prefix, or the name of a file",
}
POOLED_RUN = RUN | {"model": RUN["model"] + "; `pooled`: the models together"}
OF_FORMAT = {"format": RUN["format"], "prefix": RUN["prefix"]}
FACT = {"fact_id": "sixteen hexadecimal digits, the same in every data set"}
GRANULARITY = {"granularity": "`year`, `month` or `day`"}
LEVEL = {"granularity": "`year`, `month`, `day`, or `global`: all three"}
INTERVAL = {"low": "lower end of the 95 % interval, facts resampled", "high": "its upper end"}
LABELS = {
    "subject_label": "as in the data set",
    "relation_label": "as in the data set",
    "object_label": "as in the data set",
    "start": "first date of the true period",
    "end": "last date of the true period",
}
MEANS = {
    "win_rate": "mean W over facts",
    "win_rate_low": "lower end of its 95 % interval",
    "win_rate_high": "upper end",
    "robustness": "mean R over facts",
    "robustness_low": "lower end of its 95 % interval",
    "robustness_high": "upper end",
}
PROFILE = {
    **POOLED_RUN,
    **GRANULARITY,
    "status": "`correct`, `incorrect` or `transitional`; empty in the fine bins",
    "bin": "range of alpha; transitional contexts count at -0.5 or 0.5",
    "alpha": "where the bin is drawn",
    "statements": "how many are in the bin",
    "facts": "how many they belong to",
    "logp": "mean log-probability of the answer, nats",
    **INTERVAL,
    "lift": "mean of log-probability minus the fact's prior, nats; empty without priors",
}
PAIRED = {
    **RUN,
    "against_model": "model of the run that it is compared with",
    "against_format": "its format",
    "against_prefix": "its prefix",
    **LEVEL,
    "facts": "that both runs have",
    "against_win_rate": "mean W of the other run",
    "win_rate": "mean W of this run",
    "win_rate_difference": "this minus the other",
    "win_rate_difference_low": "lower end of the difference's 95 % interval, paired bootstrap over facts",
    "win_rate_difference_high": "its upper end",
    "win_rate_difference_p": "p of no difference, paired bootstrap",
    "against_robustness": "mean R of the other run",
    "robustness": "mean R of this run",
    "robustness_difference": "this minus the other",
    "robustness_difference_low": "lower end of the difference's 95 % interval",
    "robustness_difference_high": "its upper end",
    "robustness_difference_p": "p of no difference, paired bootstrap",
    "gained": "facts robust in this run only",
    "lost": "facts robust in the other only",
    "mcnemar_p": "exact p of gained against lost, McNemar's test",
}
FACTOR = {
    "factor": "`popularity`, `subject_popularity`, `object_popularity` and their logarithms, `log_distance`, "
    "`log_duration`, `other_objects`",
    "score": "`win_rate` or `robustness`, global",
}

COLUMNS: dict[str, dict[str, str]] = {
    "facts": {
        **RUN, **FACT, **LEVEL,
        "win_rate": "W: share of matches won, 0 to 1",
        "robustness": "R: 1 when all are won, else 0",
        "matches": "correct times incorrect contexts",
        "ties": "matches of equal scores, which count as lost",
        "near_ties": "matches decided by no more than the run's noise; empty where that is unknown",
        "win_rate_half_ties": "W with ties worth one half",
        "random_robustness": "R that a random scorer expects",
    },
    "summary": {
        **RUN, **LEVEL, "facts": "that have W and R", **MEANS,
        "ties": "share of all matches",
        "near_ties": "share of all matches; empty where the noise is unknown",
        "win_rate_half_ties": "mean W with ties worth one half",
        "random_win_rate": "0.5",
        "random_robustness": "mean R that a random scorer expects",
    },
    "alpha": PROFILE,
    "alpha_fine": PROFILE,
    "far_errors": {
        **POOLED_RUN,
        "threshold": "facts with at least this W and less than 1, by year",
        "alpha": "share of errors at this distance or farther",
        "average": "`facts`: mean of each fact's share (the papers'); `matches`: share of all lost matches",
        "facts": "that qualify; pairs of model and fact where pooled",
        "share": "of lost matches whose incorrect context is that far; empty where no fact qualifies",
        "low": "lower end of the 95 % interval: bootstrap over facts, or Wilson's for `matches`",
        "high": "its upper end",
    },
    "formats": PAIRED,
    "transfer": {
        **POOLED_RUN,
        "a": "granularity that knowledge is carried to",
        "b": "granularity at which the fact is known",
        "known_both": "facts known (R = 1) at both",
        "known_b": "facts known at b that have matches at a",
        "rate": "known_both / known_b; empty where nothing is known at b",
        "low": "lower end of Wilson's 95 % interval with continuity correction",
        "high": "its upper end",
    },
    "transfer_mean": {
        **POOLED_RUN,
        "rate": "mean of the six rates off the diagonal; empty where one is",
        "lowest": "the lowest of them",
        "highest": "the highest",
    },
    "agreement": {
        **OF_FORMAT,
        "alpha_low": "lower end of the bin of the year context's alpha, itself outside",
        "alpha_high": "upper end, inside",
        "facts": "pairs of model and fact",
        "contexts": "incorrect contexts, aligned by year",
        "accuracy": "mean over model, fact and pair of granularities of the share judged alike (the paper's)",
        **INTERVAL,
        "accuracy_pooled": "share of all pairs of judgements that are alike",
        "matthews": "mean Matthews correlation of the three pairs; empty where a granularity never varies",
    },
    "prefixes": PAIRED,
    "granularity_variance": {
        **RUN,
        "facts": "with all three granularities in both runs",
        "variance": "mean over facts of the variance of R between granularities, with the prefix",
        "variance_without": "the same without it",
        "ratio": "with over without; below 1 the prefix reduced it; empty where there is none without",
        **INTERVAL,
    },
    "sizes": {
        "family": "from the model's configuration, or `--models`", **RUN,
        "parameters": "counted in the model, or from `--models`",
        "instruct": "tuned on instructions: by its name, or `--models`",
        "facts": "with all three granularities", **MEANS,
    },
    "size_to_perfection": {
        "family": "of at least two models of different size", "instruct": "tuned on instructions or not", **OF_FORMAT,
        "models": "points of the line",
        "slope": "R gained for ten times the parameters",
        "parameters_at_1": "where the line reaches R = 1; empty where R does not grow",
    },
    "base_and_instruct": {
        **RUN, "base": "its pretrained model, always raw", "score": "`win_rate` or `robustness`, global",
        "facts": "that both have",
        "win": "facts on which the instruct model scores higher", "tie": "equal", "loss": "lower",
    },
    "correlations": {
        "models": "`all` or `top`, the most robust", "format": "`raw`, `chat` or `all`", **FACTOR,
        "n": "pairs of run and fact", "facts": "different facts among them",
        "r": "Pearson's r",
        "p": "as if all pairs were independent (the papers')",
        "p_clustered": "allowing pairs of one fact to depend on each other",
    },
    "factor_bins": {
        "models": "`all` or `top`, the most robust", "format": "`raw` or `chat`; their runs together", **FACTOR,
        "bin": "0 to at most 9: facts in groups of like value, about equally many each",
        "value_low": "lowest value in the group", "value_high": "highest", "value_mean": "mean",
        "facts": "in the group", "mean": "mean of the score", **INTERVAL,
    },
    "relations": {
        "format": "`raw` or `chat`; all models together", "rank": "by R, then W",
        "relation": "its label, with its id where two have one label",
        "facts": "of the relation", "win_rate": "mean W", "robustness": "mean R", **INTERVAL,
    },
    "overlap": {
        **OF_FORMAT, "model": "one of the two", "other": "the other",
        "robust_both": "facts globally robust in both", "robust_any": "in one at least",
        "jaccard": "both over any; empty where neither has one",
    },
    "shared_knowledge": {
        **OF_FORMAT, "group": "`all` models, or `top`, the most robust", "models": "how many",
        "pairs": "pairs of models, without those in which neither knows a fact",
        "mean_jaccard": "mean over these pairs",
        "robust_in_all": "facts robust in every one of them", "robust_in_any": "in one at least",
        "share": "all over any",
    },
    "comparison": PAIRED,
    "margins": {
        **RUN, **LEVEL, "facts": "that have matches", "margin": "in nats",
        "robustness": "share of facts whose every match is won by more than the margin",
    },
    "timelines": {
        "rank": "1: the fact with the farthest error; at most 12 pairs of run and fact", **RUN, **FACT, **LABELS,
        "win_rate": "W of the fact by year", "time": "the year asked about",
        "status": "`correct`, `incorrect`, `transitional` or `discarded`",
        "alpha": "relative position of the year", "logp": "log-probability of the answer, nats",
        "prior": "that of the question without a date; empty where it was not scored",
        "lost": "an incorrect year that beat a correct one", "far": "lost, with abs(alpha) >= 1",
    },
    "believed": {
        **RUN, **FACT,
        "believed": "whether the best step beats a constant by BIC",
        "believed_start": "first year inside; empty where that end is open or nothing is believed",
        "believed_end": "last year inside; likewise",
        "inside": "mean log-probability inside, nats", "outside": "outside",
        "bic_gain": "BIC of the constant minus that of the step",
        "contexts": "years asked about",
        "resolution_days": "median distance of neighbouring years asked about: no boundary is known more finely",
        "start_error_days": "believed minus true start, days; negative: too early",
        "end_error_days": "believed minus true end, days",
        "overlap": "days in both periods over days in either, where all ends are known",
    },
    "believed_summary": {
        **RUN, "facts": "with years asked about",
        "believed": "share of them with a believed period",
        "believed_low": "lower end of its 95 % interval", "believed_high": "upper end",
        "resolution_days": "median over the believed ones",
        "starts": "believed starts that can be compared", "start_error_days": "median of their absolute errors",
        "ends": "believed ends that can be compared", "end_error_days": "median of their absolute errors",
        "closed": "believed periods with all ends known", "overlap": "mean of their overlap",
        "overlap_low": "lower end of its 95 % interval", "overlap_high": "upper end",
    },
    "anachronisms": {
        "rank": "in its run, by falling absurdity", **RUN, **FACT, **LABELS, **GRANULARITY,
        "time": "the date preferred", "alpha": "its relative position", "logp": "log-probability of the answer, nats",
        "lead": "logp minus that of the best correct context; negative where it beats only some",
        "beaten": "share of the correct contexts that it beats",
        "win_rate": "W of the fact at this granularity",
        "reason": "`before the subject`, `before the object` or `far from the period`",
        "absurdity": "abs(alpha), at least 1, times beaten",
    },
    "anachronism_summary": {
        **RUN, "facts": "with matches", "facts_with": "facts that have an anachronism",
        "share": "facts_with over facts", **INTERVAL,
        "anachronisms": "in all", "impossible": "those before the subject or the object existed",
        "most_absurd_alpha": "alpha of rank 1", "farthest_alpha": "alpha of the farthest",
    },
    "years": {
        "first_year": "of a span of ten; -10 is 10 to 1 BCE",
        "correct": "year contexts", "incorrect": "year contexts", "transitional": "year contexts",
    },
    "dataset": {"what": "is counted", "value": "the count, or the mean a fact"},
}  # fmt: skip

NEEDS = {
    "_all_granularities": "facts with matches at year, month and day",
    "_two_granularities": "facts with matches at two granularities",
    "_against_baseline": "two models in the same format and prefix, one of them the baseline",
    "_relations": "relation labels of facts with matches at year, month and day, in a run without a prefix",
    "_years": "facts with matches at year granularity",
    "_year_contexts": "dates that are years",
    "_both_formats": "raw and chat scores of one model",
    "_prefixes": "scores of one model with a prefix and without",
    "_several_models": "two models in the same format and prefix",
    "_sizes": "the number of parameters of a model (recorded by runs, or `--models`)",
    "_families": "two models of one family and of different size",
    "_pairs_of_base_and_instruct": "an instruct model and its base, raw (told by their names, or `--models`)",
    "_any_factor": "popularity, dates or the number of other objects of facts in a run without a prefix",
    "_far_errors_to_show": "a fact with 0.9 <= W < 1 and a match lost at least one period away",
    "_anachronisms": "an impossible or far date that beat a true one",
    "_dates": "dates that can be read, where the data set knows from when on a subject or object exists",
    "_aligned": "a fact known at some granularity to one of the most robust models",
}

HEAD = """# Tables

Made from the code by `make docs`; do not edit.

`anachron metrics RUN... --out tables` writes every table that its input allows, as `NAME.parquet` and `NAME.csv`, and
for print as `markdown/NAME.md` and `latex/NAME.tex` (booktabs). What a table needs and does not find is said, and
recorded in `manifest.json`. Tables with a row for each fact are written as data only.

In these CSV files, in those of `evaluate` and in the sample of `verbalize`, an apostrophe stands before a text that a
spreadsheet would run as a formula: one that begins with `=`, `+`, `-` or `@` and is no number or date. Parquet files
hold every label as it is, and so do data sets in any format (`datasets`, `build`, `export`).

The most robust models are the first five (`--top`) of each format by global R, then W, without a prefix; with a prefix
the same models are taken. Rows called `pooled` in `transfer` and `far_errors`, those called `top`, and `agreement` are
over these; `pooled` in `alpha` is over all models. Sources: 002 is the TimeStress paper, 001
its first version; see [definitions](definitions.md).
"""


def tables_page() -> str:
    """The page as Markdown. Raises `KeyError` for a table or a need that has no words here."""
    contents = [f"| [`{a.name}`](#{a.name}) | {a.title} | {a.source} |" for a in ANALYSES]
    parts = [HEAD, "\n".join(["| table | shows | source |", "| --- | --- | --- |", *contents]) + "\n"]
    return "\n".join([*parts, *map(_section, ANALYSES)])


def _section(analysis: Analysis) -> str:
    needs = "; ".join(NEEDS[need.__name__] for need in analysis.needs) or "only scores"
    columns = [f"| `{name}` | {meaning} |" for name, meaning in COLUMNS[analysis.name].items()]
    head = f"## {analysis.name}\n\n{analysis.title}. Source: {analysis.source}. Needs: {needs}.\n"
    return "\n".join([head, "| column | |", "| --- | --- |", *columns, ""])
