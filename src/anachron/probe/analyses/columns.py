"""What the columns that several tables share hold, as docs/tables.md says it."""

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
