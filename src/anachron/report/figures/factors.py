"""Figures of what W and R go with: size, popularity, distance, duration, other objects, relation."""

from typing import TYPE_CHECKING

import polars as pl

from anachron.plots import marks, style
from anachron.plots.style import COLUMN, FORMATS, PAGE, Look
from anachron.report.figures.summary import SCORES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTORS = {
    "popularity": "popularity",
    "log_popularity": "ln popularity",
    "subject_popularity": "popularity of the subject",
    "log_subject_popularity": "ln popularity of the subject",
    "object_popularity": "popularity of the object",
    "log_object_popularity": "ln popularity of the object",
    "log_distance": "ln years from the present",
    "log_duration": "ln duration in years",
    "other_objects": "other objects",
}
UNKNOWN = "family unknown"
SIGNIFICANT = 0.05
HIGHEST = 10
CONFOUNDED = "R is not shown:\na longer fact has more matches to lose"
WIDE = 32  # letters a line of a relation


def sizes(table: pl.DataFrame) -> "Figure":
    """W and R over all granularities against the number of parameters, a line a family.

    Base models: filled marks and a solid line; instruct models: hollow marks and a dotted line. Models of no known
    family have no line. A row of panels a format and prefix. Source: paper 002, figure 11; 001, figure 7.
    """
    rows = style.check("sizes", table, "parameters", *SCORES)
    families = list(dict.fromkeys(rows["family"].fill_null(UNKNOWN)))
    panels = style.sections(rows.with_columns(pl.col("family").fill_null(UNKNOWN)))
    labels = [f"{f}, {kind}" for f in families for kind in ("base", "instruct")]
    height = 1.75 * len(panels) + 0.3 + marks.legend_height(labels, PAGE)
    with style.sheet(PAGE, height, len(panels), 2, sharex=True, sharey="col") as (figure, axes):
        for across, (title, part) in zip(axes, panels, strict=True):
            across[0].set_title(title)
            for panel, (score, said) in zip(across, SCORES.items(), strict=True):
                panel.set_xscale("log")
                for (family, instruct), own in part.group_by("family", "instruct", maintain_order=True):
                    seen = style.look(families.index(str(family)))
                    seen = Look(seen.colour, seen.marker, ":" if instruct else "-", hollow=bool(instruct))
                    own = own.sort("parameters")
                    marks.dots(
                        panel, own["parameters"], own[score], seen, low=own[f"{score}_low"], upright=True,
                        high=own[f"{score}_high"], label=f"{family}, {'instruct' if instruct else 'base'}",
                        joined=family != UNKNOWN, shift=1.5 if instruct else -1.5,
                    )  # fmt: skip
                panel.set_ylabel(said)
                marks.in_percent(panel, "y")
                marks.in_counts(panel)
        axes[0, 1].set_ylim(bottom=0)
        known = rows["parameters"].to_numpy()
        axes[0, 0].set_xlim(known.min() / 1.5, known.max() * 1.5)  # so that one size alone has room around it too
        for panel in axes[-1]:
            panel.set_xlabel("parameters")
        marks.legend(figure)
    return figure


def correlations(table: pl.DataFrame) -> "Figure":
    """Pearson's r of each factor with W and with R; filled where p, clustered by fact, is below 0.05.

    Above over all models, below over the most robust. Source: paper 002, section 4.2, figures 13 and 18.
    """
    rows = style.check("correlations", table, "r")
    groups = style.in_order(rows["models"], ["all", "top"])
    order = style.in_order(rows["factor"], list(FACTORS))
    forms = style.in_order(rows["format"], ["all", "raw", "chat"])
    if len(forms) == 2:  # one format, so over both is the same
        forms = forms[1:]
    labels = [FACTORS.get(name, name) for name in order]
    tall = marks.rows_height(labels, least=0.12 + 0.07 * len(forms))
    size = (PAGE, (tall + 0.25) * len(groups) + 0.65)
    with style.sheet(*size, len(groups), 2, sharex=True, sharey=True) as (figure, axes):
        for across, group in zip(axes, groups, strict=True):
            of_models = {"all": "all models", "top": "the most robust models"}.get(group, group)
            for panel, (score, said) in zip(across, SCORES.items(), strict=True):
                panel.set_title(f"{said}, {of_models}")
                marks.name_rows(panel, labels)
                marks.reference(panel, 0)
                for form, offset in zip(forms, marks.spread(len(forms)), strict=True):
                    own = rows.filter(pl.col("models") == group, pl.col("score") == score, pl.col("format") == form)
                    sure = (pl.col("p_clustered") < SIGNIFICANT).fill_null(False)
                    for hollow, some in ((False, own.filter(sure)), (True, own.filter(~sure))):
                        seen = Look(FORMATS[form].colour, FORMATS[form].marker, hollow=hollow)
                        sign = "\N{GREATER-THAN OR EQUAL TO}" if hollow else "<"
                        marks.dots(
                            panel, [order.index(f) + offset for f in some["factor"]], some["r"], seen,
                            label=f"{style.format_name(form)}, p {sign} {SIGNIFICANT}",
                        )  # fmt: skip
        for panel in axes[-1]:
            panel.set_xlabel("Pearson's r")
            panel.locator_params(axis="x", nbins=5)
            marks.at_least(panel, 0.2)
        marks.legend(figure)
    return figure


def factor_bins(table: pl.DataFrame) -> "Figure":
    """Mean W and R of facts of like popularity, distance, duration and number of other objects, with intervals.

    Of a popularity the logarithm is drawn (the plain values are far too skewed), over all models.
    Source: paper 002, figures 13 and 18; paper 001, figure 8.
    """
    drawn = [name for name in FACTORS if f"log_{name}" not in FACTORS]
    shown = table.filter(pl.col("factor").is_in(drawn), pl.col("models") == "all")
    rows = style.check("factor_bins", shown, "value_mean", "mean")
    found = style.in_order(rows["factor"], drawn)
    forms = style.in_order(rows["format"], list(FORMATS))
    with style.sheet(PAGE, 1.45 * len(found) + 0.35, len(found), 2, sharex="row", sharey="col") as (figure, axes):
        for across, factor in zip(axes, found, strict=True):
            for panel, (score, said) in zip(across, SCORES.items(), strict=True):
                part = rows.filter(pl.col("factor") == factor, pl.col("score") == score)
                if not part.height:
                    marks.blank([panel], CONFOUNDED if score == "robustness" and factor == "log_duration" else "")
                    continue
                for form in forms:
                    own, seen = part.filter(pl.col("format") == form), FORMATS[form]
                    marks.dots(
                        panel, own["value_mean"], own["mean"], seen, low=own["low"], high=own["high"],
                        label=style.format_name(form), upright=True, joined=True, shift=3.0 * forms.index(form),
                    )  # fmt: skip
                if factor == "other_objects":
                    panel.locator_params(axis="x", integer=True)
                panel.set_xlabel(FACTORS[factor])
                panel.set_ylabel(said)
                marks.in_percent(panel, "y")
        marks.legend(figure)
    return figure


def relations(table: pl.DataFrame) -> "Figure":
    """R of the ten relations that are highest in it, a panel a format, with intervals and the number of facts.

    Source: paper 002, figure 16.
    """
    rows = style.check("relations", table, "robustness").filter(pl.col("rank") <= HIGHEST)
    forms = style.in_order(rows["format"], list(FORMATS))
    width = COLUMN if len(forms) == 1 else PAGE
    parts = [rows.filter(pl.col("format") == form).sort("rank") for form in forms]
    labels = [[f"{r} ({n:,})" for r, n in part.select("relation", "facts").iter_rows()] for part in parts]
    height = max(marks.rows_height(names, 0.2, WIDE) for names in labels) + 0.65
    with style.sheet(width, height, 1, len(forms), sharex=True) as (figure, axes):
        for panel, form, part, names in zip(axes.flat, forms, parts, labels, strict=True):
            panel.set_title(style.format_name(form))
            marks.name_rows(panel, names, WIDE)
            marks.dots(panel, range(part.height), part["robustness"], FORMATS[form], low=part["low"], high=part["high"])
            marks.in_percent(panel)
            panel.set_xlabel("robustness R (number of facts)")
        axes[0, 0].set_xlim(left=0)
    return figure
