"""What each figure draws: its marks, ends of intervals, bars and texts against the rows of its table, one by one."""

import copy
import os
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.patches import StepPatch
from matplotlib.text import Text

from anachron.analysis.analyses.alpha import compact
from anachron.analysis.catalogue import ANALYSES, make_tables
from anachron.analysis.plots.marks import short_count
from anachron.analysis.plots.style import folded, look
from anachron.core.errors import ConfigError, DataError
from anachron.report.figures import write_figure
from support.synthetic_studies import synthetic_study

pytestmark = pytest.mark.full

LONG = tuple(f"some-organisation/A-rather-long-name-{n}B{'-Instruct' if n % 2 else ''}" for n in range(10, 28))
RAW, CHAT, HIERARCHY = ("raw", "none"), ("chat", "none"), ("raw", "hierarchy")
PANELS = (RAW, HIERARCHY, CHAT)  # as figures order them
FIGURES = {analysis.name: analysis.figure for analysis in ANALYSES if analysis.figure is not None}
# Facts are too many to draw, and the others are a few numbers that a table says better.
WITHOUT_FIGURE = {
    "facts", "believed", "anachronisms", "dataset", "shared_knowledge", "size_to_perfection", "believed_summary",
    "anachronism_summary", "lifespans", "crossed_pairs", "decoy_facts",
}  # fmt: skip


@pytest.fixture(scope="module")
def several():
    return make_tables(synthetic_study(count=14, resamples=40))[0]


@pytest.fixture(scope="module")
def alone():
    """One model, in raw text only."""
    return make_tables(synthetic_study(count=14, resamples=40, runs=(("fir-1b", "raw", "none", 0.5),)))[0]


@pytest.fixture(scope="module")
def study_of_many():
    """Eighteen models with long names, the first four in chat and with a prefix too."""
    runs = [(name, "raw", "none", n / 12) for n, name in enumerate(LONG)]
    runs += [(name, form, prefix, 0.5) for name in LONG[:4] for form, prefix in (CHAT, HIERARCHY)]
    return synthetic_study(count=4, resamples=20, runs=runs)


@pytest.fixture(scope="module")
def many(study_of_many):
    return make_tables(study_of_many)[0]


def table_of(study, name):
    """One table alone, where making all takes seconds."""
    return next(analysis for analysis in ANALYSES if analysis.name == name).compute(study)


def drawn(axes, label):
    """(x, y) of the marks or the line with this label."""
    return [tuple(point) for line in axes.lines if line.get_label() == label for point in line.get_xydata()]


def ends(axes, label):
    """((x, y), (x, y)) of the intervals of the marks with this label."""
    found = [c for c in axes.collections if isinstance(c, LineCollection) and c.get_label() == f"_interval {label}"]
    return [tuple(map(tuple, segment)) for collection in found for segment in collection.get_segments()]


def near(found, expected):
    assert len(found) == len(expected)
    np.testing.assert_allclose(np.array(found, float), np.array(expected, float), atol=1e-12)


def of(table, form, prefix):
    return table.filter(pl.col("format") == form, pl.col("prefix") == prefix)


def names(axes):
    """Names of the rows, put together again."""
    return [label.get_text() for label in axes.get_yticklabels()]


def in_legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()] if figure.legends else []


def label_of(granularity):
    return "all three" if granularity == "global" else granularity


def test_every_analysis_has_a_figure_or_is_named_as_without_one():
    assert {analysis.name for analysis in ANALYSES if analysis.figure is None} == WITHOUT_FIGURE


def test_importing_the_figures_loads_no_matplotlib():
    code = "import sys, anachron.report.figures, anachron.analysis.catalogue; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_matplotlib_the_extra_is_named(monkeypatch, several):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'matplotlib.* 'plotly"):
        FIGURES["years"](several["years"])


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_drawn_from_nothing(name, several):
    table = several[name]
    numbers = [c for c in table.columns if table[c].dtype.is_numeric() and c != "rank"]
    with pytest.raises(DataError, match="nothing to draw"):
        FIGURES[name](table.with_columns(pl.lit(None, table[c].dtype).alias(c) for c in numbers))
    with pytest.raises(DataError, match="nothing to draw"):
        FIGURES[name](table.clear())


def test_a_table_of_another_analysis_is_refused(several):
    with pytest.raises(DataError, match="the table for figure summary lacks the columns win_rate, robustness"):
        FIGURES["summary"](several["alpha"])


def test_crossed_matches_beside_w_between_the_same_dates(several):
    rows = several["crossed"].filter(relation="all", granularity="year")
    (axes,) = FIGURES["crossed"](several["crossed"]).axes
    assert rows.height > 2
    assert axes.get_xlabel() == "matches won (year)"
    for label, column in (("crossed matches", "crossed"), ("W between the same dates", "win_rate")):
        near(drawn(axes, label), [(value, place) for place, value in enumerate(rows[column])])
    near(
        ends(axes, "crossed matches"),
        [((row["crossed_low"], place), (row["crossed_high"], place)) for place, row in enumerate(rows.to_dicts())],
    )


def test_summary(several):
    figure = FIGURES["summary"](several["summary"])
    panels = figure.axes
    for number, (form, prefix) in enumerate(PANELS):
        part = of(several["summary"], form, prefix)
        together = part.filter(pl.col("granularity") == "global").sort("robustness", "win_rate", descending=True)
        assert names(panels[2 * number]) == together["model"].to_list()
        for axes, score in zip(panels[2 * number : 2 * number + 2], ("win_rate", "robustness"), strict=True):
            for step, granularity in enumerate(("year", "month", "day", "global")):
                rows = part.filter(pl.col("granularity") == granularity).to_dicts()
                places = [together["model"].to_list().index(row["model"]) + (step - 1.5) * 0.2 for row in rows]
                near(drawn(axes, label_of(granularity)), [(row[score], y) for row, y in zip(rows, places, strict=True)])
                near(
                    ends(axes, label_of(granularity)),
                    [((r[f"{score}_low"], y), (r[f"{score}_high"], y)) for r, y in zip(rows, places, strict=True)],
                )
    assert panels[0].get_title(loc="left") == "raw text, no prefix"
    assert panels[4].get_title(loc="left") == "chat, no prefix"
    assert in_legend(figure) == ["year", "month", "day", "all three", "random scorer"]


@pytest.mark.full
def test_summary_of_many_models_has_the_five_most_robust_on_their_own(study_of_many):
    table = table_of(study_of_many, "summary")
    panels = FIGURES["summary"](table).axes
    part = of(table, *RAW).filter(pl.col("granularity") == "global")
    order = part.sort(["robustness", "win_rate", "model"], descending=[True, True, False])["model"].to_list()
    assert [name.replace("\n", "") for name in names(panels[0])] == order[:5]
    assert [name.replace("\n", "") for name in names(panels[2])] == order
    assert panels[0].get_title(loc="left") == "raw text, no prefix: the 5 most robust models"
    assert panels[2].get_title(loc="left") == "raw text, no prefix: all models"
    assert panels[4].get_title(loc="left") == "raw text, prefix hierarchy"  # four models are no reason to choose


def test_one_model_in_raw_text_alone(alone):
    summary, far, agreement = (FIGURES[name](alone[name]) for name in ("summary", "far_errors", "agreement"))
    assert names(summary.axes[0]) == ["fir-1b"]
    assert [axes.get_title(loc="left") for axes in (summary.axes[0], far.axes[0])] == ["raw text", "raw text"]
    row = alone["summary"].filter(pl.col("granularity") == "day").row(0, named=True)
    near(drawn(summary.axes[1], "day"), [(row["robustness"], 0.1)])
    assert len(far.axes) == len(agreement.axes) == 1
    assert in_legend(agreement) == ["the period", "raw text"]


def test_summary_of_facts_without_all_granularities_ranks_by_what_there_is(several):
    table = several["summary"].filter(pl.col("granularity") == "year")
    axes = FIGURES["summary"](table).axes[0]
    ranked = of(table, *RAW).sort(["robustness", "win_rate", "model"], descending=[True, True, False])
    assert names(axes) == ranked["model"].to_list()


def test_a_null_interval_is_not_drawn_and_a_null_value_neither(several):
    table = several["summary"].with_columns(
        pl.when(pl.col("model") == "fir-7b").then(None).otherwise("win_rate_low").alias("win_rate_low"),
        pl.when(pl.col("model") == "oak-3b").then(None).otherwise("robustness").alias("robustness"),
    )
    axes = FIGURES["summary"](table).axes[0]
    part = of(table, *RAW).filter(pl.col("granularity") == "year")
    assert len(drawn(axes, "year")) == part.height - 1
    assert len(ends(axes, "year")) == part.height - 2
    assert "oak-3b" not in names(axes)


def test_alpha(several):
    figure = FIGURES["alpha"](several["alpha"])
    pooled = several["alpha"].filter(pl.col("model") == "pooled")
    bins = pooled.select("bin", "alpha").unique().sort("alpha")["bin"].to_list()
    for axes, key in zip(figure.axes, PANELS, strict=True):
        rows = of(pooled, *key)
        for status in ("correct", "transitional", "incorrect"):
            own = rows.filter(pl.col("status") == status).to_dicts()
            near(drawn(axes, status), [(bins.index(row["bin"]), row["logp"]) for row in own])
            places = [bins.index(row["bin"]) for row in own]
            near(
                ends(axes, status),
                [((x, row["low"]), (x, row["high"])) for x, row in zip(places, own, strict=True)],
            )
        counts = {(t.xy[0], t.get_text()) for t in axes.texts}
        assert counts == {(bins.index(row["bin"]), f"{row['statements']:,}") for row in rows.to_dicts()}
    ticks = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert ticks == [name.replace("<=", "≤").replace("-", "−") for name in bins]
    assert in_legend(figure) == ["the period", "correct", "transitional", "incorrect"]


def test_alpha_sets_two_statuses_of_one_bin_side_by_side(alone):
    twice = alone["alpha"].filter(pl.col("bin") == "(0.5, 1]").with_columns(pl.lit("correct").alias("status"))
    axes = FIGURES["alpha"](pl.concat([alone["alpha"], twice])).axes[0]
    x = {status: {round(point[0] % 1, 2) for point in drawn(axes, status)} for status in ("correct", "incorrect")}
    assert x["correct"].isdisjoint(x["incorrect"])


def test_compact_counts():
    assert [compact(n) for n in (7, 950, 12_345, 99_999, 144_160, 999_499, 1_442_160)] == [
        "7", "950", "12,345", "99,999", "144k", "999k", "1.4M",
    ]  # fmt: skip
    assert [short_count(n) for n in (20, 5e3, 4.5e8, 7e9, 1e12)] == ["20", "5k", "450M", "7B", "1T"]


def test_alpha_fine_is_broken_where_a_bin_has_no_contexts(several):
    table = several["alpha_fine"].filter(~pl.col("alpha").is_between(1.0, 1.4))
    figure = FIGURES["alpha_fine"](table)
    for axes, key in zip(figure.axes, PANELS, strict=True):
        for granularity in ("year", "month", "day"):
            rows = of(table, *key).filter(pl.col("model") == "pooled", pl.col("granularity") == granularity)
            points = drawn(axes, granularity)
            near([p for p in points if p[0] == p[0]], rows.sort("alpha").select("alpha", "logp").rows())
            breaks = [n for n, point in enumerate(points) if point[1] != point[1]]
            assert any(points[n - 1][0] < 1.0 and points[n + 1][0] > 1.4 for n in breaks)
            band = next(c for c in axes.collections if c.get_label() == f"_interval {granularity}")
            corners = np.concatenate([path.vertices for path in band.get_paths()])
            for row in rows.to_dicts():
                for end in ("low", "high"):
                    assert np.isclose(corners, (row["alpha"], row[end])).all(axis=1).any()


def test_far_errors(several):
    figure = FIGURES["far_errors"](several["far_errors"])
    table = several["far_errors"].filter(pl.col("model") == "pooled", pl.col("average") == "facts").drop_nulls("share")
    for axes, key in zip(figure.axes, PANELS, strict=False):
        own = of(table, *key)
        texts = [text.get_text() for text in axes.get_legend().get_texts()]
        assert len(texts) == own["threshold"].n_unique()
        for label in texts:
            threshold = float(label.split()[1]) / 100
            rows = own.filter(pl.col("threshold") == threshold).sort("alpha").to_dicts()
            assert label == f"≥ {100 * threshold:g} % ({rows[0]['facts']})"
            offset = ((0.9, 0.95, 0.97, 0.99).index(threshold) - 1.5) * 0.5 / 3
            near(drawn(axes, label), [(row["alpha"] + offset, row["share"]) for row in rows])
            near(
                ends(axes, label),
                [((r["alpha"] + offset, r["low"]), (r["alpha"] + offset, r["high"])) for r in rows],
            )


def test_formats(several):
    table = several["formats"]
    figure = FIGURES["formats"](table)
    rows = table.filter(pl.col("granularity") == "global").sort("against_robustness", descending=True).to_dicts()
    assert names(figure.axes[0]) == [row["model"] for row in rows]
    for score, (both, gap) in zip(("win_rate", "robustness"), (figure.axes[:2], figure.axes[2:]), strict=True):
        near(drawn(both, "raw text"), [(row[f"against_{score}"], n - 0.15) for n, row in enumerate(rows)])
        near(drawn(both, "chat"), [(row[score], n + 0.15) for n, row in enumerate(rows)])
        near(drawn(gap, "chat minus raw text"), [(row[f"{score}_difference"], n) for n, row in enumerate(rows)])
        near(
            ends(gap, "chat minus raw text"),
            [((row[f"{score}_difference_low"], n), (row[f"{score}_difference_high"], n)) for n, row in enumerate(rows)],
        )


def test_formats_of_years_alone_say_so(several):
    figure = FIGURES["formats"](several["formats"].filter(pl.col("granularity") == "year"))
    assert figure.get_suptitle() == "year"
    assert FIGURES["formats"](several["formats"]).get_suptitle() == "all granularities"


@pytest.mark.parametrize(
    ("name", "against", "row_name"),
    [
        ("prefixes", "against no prefix", lambda row: f"{row['model']}, {row['prefix']}"),
        ("comparison", "against fir-1b", None),
    ],
)
def test_differences(several, name, against, row_name):
    table = several[name]
    telling = [c for c in ("format", "prefix") if table[c].n_unique() > 1]
    said = {"raw": "raw text", "chat": "chat", "none": "no prefix"}
    row_name = row_name or (lambda row: ", ".join([row["model"], *(said[row[c]] for c in telling)]))
    figure = FIGURES[name](table)
    assert figure.get_suptitle() == against
    order = list(dict.fromkeys(map(row_name, table.to_dicts())))
    assert names(figure.axes[0]) == order
    for axes, score in zip(figure.axes, ("win_rate", "robustness"), strict=True):
        for step, granularity in enumerate(("year", "month", "day", "global")):
            rows = table.filter(pl.col("granularity") == granularity).to_dicts()
            y = [order.index(row_name(row)) + (step - 1.5) * 0.2 for row in rows]
            near(
                drawn(axes, label_of(granularity)),
                [(row[f"{score}_difference"], p) for row, p in zip(rows, y, strict=True)],
            )
            near(
                ends(axes, label_of(granularity)),
                [
                    ((row[f"{score}_difference_low"], p), (row[f"{score}_difference_high"], p))
                    for row, p in zip(rows, y, strict=True)
                ],
            )
        assert drawn(axes, "_reference")[0][0] == 0


def test_granularity_variance_has_a_line_at_one(several):
    row = several["granularity_variance"].to_dicts()[0]
    table = pl.DataFrame([row | {"ratio": 0.8, "low": 0.5, "high": 1.3}, row | {"model": "other", "ratio": None}])
    axes = FIGURES["granularity_variance"](table).axes[0]
    assert names(axes) == ["fir-1b"]
    near(drawn(axes, "prefix hierarchy"), [(0.8, 0)])
    near(ends(axes, "prefix hierarchy"), [((0.5, 0), (1.3, 0))])
    assert drawn(axes, "_reference")[0][0] == 1


def test_base_and_instruct(several):
    table = several["base_and_instruct"]
    figure = FIGURES["base_and_instruct"](table)
    for axes, score in zip(figure.axes, ("win_rate", "robustness"), strict=True):
        rows = table.filter(pl.col("score") == score).to_dicts()
        left = np.zeros(len(rows))
        for bars, outcome in zip(axes.containers, ("win", "tie", "loss"), strict=True):
            assert bars.get_label() == outcome
            shares = [row[outcome] / row["facts"] for row in rows]
            near([bar.get_width() for bar in bars], shares)
            near([bar.get_x() for bar in bars], left)
            left += shares
            near([bar.get_y() + bar.get_height() / 2 for bar in bars], range(len(rows)))
        near(left, np.ones(len(rows)))
        shown = sorted(f"{100 * row[o] / row['facts']:.0f}" for row in rows for o in ("win", "tie", "loss")
                       if row[o] / row["facts"] >= 0.08)  # fmt: skip
        assert sorted(text.get_text() for text in axes.texts) == shown
        hatches = [bars.patches[0].get_hatch() for bars in axes.containers]
        assert hatches[2] and not hatches[0] and not hatches[1]


def test_transfer_shows_the_pooled_models_first(several):
    figure = FIGURES["transfer"](several["transfer"])
    shown = [axes for axes in figure.axes if axes.collections]
    titles = [axes.get_title(loc="left").split("\n") for axes in shown]
    raw = of(several["transfer"], *RAW)
    known = raw.filter(pl.col("a") == pl.col("b"), pl.col("model") != "pooled").group_by("model").agg(
        pl.col("known_b").sum()
    )  # fmt: skip
    order = known.sort(["known_b", "model"], descending=[True, False])["model"].to_list()
    assert titles[0] == ["raw text, no prefix", "pooled"]
    assert [title[0] for title in titles[1:6]] == order
    for axes, model in zip(shown, ["pooled", *order], strict=False):
        (mesh,) = [c for c in axes.collections if isinstance(c, QuadMesh)]
        values = mesh.get_array()
        for row in raw.filter(pl.col("model") == model).to_dicts():
            j, i = (("year", "month", "day").index(row[side]) for side in ("a", "b"))
            text = next(t.get_text() for t in axes.texts if t.get_position() == (j, i))
            if row["rate"] is None:
                assert values.mask[i, j] and text == "–"
            else:
                assert values[i, j] == pytest.approx(row["rate"])
                assert text == f"{100 * row['rate']:.0f}\n{100 * row['low']:.0f}–{100 * row['high']:.0f}"
        assert [t.get_text() for t in axes.get_yticklabels()] == ["year", "month", "day"]
        assert axes.get_ylim() == (2.5, -0.5)  # year at the top


@pytest.mark.full
def test_transfer_of_many_models_says_how_many_it_shows(study_of_many):
    figure = FIGURES["transfer"](table_of(study_of_many, "transfer"))
    heads = [" ".join(axes.get_title(loc="left").split("\n")) for axes in figure.axes]
    assert "raw text, no prefix, 7 of 18 models pooled" in heads
    assert sum("prefix" in head and "models" in head for head in heads) == 1


def test_transfer_mean(several):
    table = several["transfer_mean"].drop_nulls("rate")
    axes = FIGURES["transfer_mean"](several["transfer_mean"]).axes[0]
    said = {"raw": "raw text", "chat": "chat"}
    assert names(axes)[:2] == ["pooled, raw text", "pooled, chat"]
    assert sorted(names(axes)) == sorted({f"{row['model']}, {said[row['format']]}" for row in table.to_dicts()})
    for label, prefix, offset in (("no prefix", "none", -0.15), ("prefix hierarchy", "hierarchy", 0.15)):
        rows = table.filter(pl.col("prefix") == prefix).to_dicts()
        y = [names(axes).index(f"{row['model']}, {said[row['format']]}") + offset for row in rows]
        near(drawn(axes, label), [(row["rate"], p) for row, p in zip(rows, y, strict=True)])
        near(ends(axes, label), [((row["lowest"], p), (row["highest"], p)) for row, p in zip(rows, y, strict=True)])


def test_overlap(several):
    figure = FIGURES["overlap"](several["overlap"])
    for axes, form in zip(figure.axes, ("raw", "chat"), strict=True):
        rows = several["overlap"].filter(pl.col("format") == form).to_dicts()
        models = list(dict.fromkeys([*(row["model"] for row in rows), *(row["other"] for row in rows)]))
        assert names(axes) == [f"{model}  {n}" for n, model in enumerate(models, 1)]
        values = axes.collections[0].get_array()
        texts = {t.get_position(): t.get_text() for t in axes.texts if t.get_text()}
        assert len(texts) == len(rows)
        for row in rows:
            i, j = models.index(row["other"]), models.index(row["model"])
            assert values.mask[j, i]
            if row["jaccard"] is None:
                assert values.mask[i, j] and texts[j, i] == "–"
            else:
                assert values[i, j] == pytest.approx(row["jaccard"])
                assert texts[j, i] == f"{100 * row['jaccard']:.0f}"


def test_agreement(several):
    figure = FIGURES["agreement"](several["agreement"])
    for axes, prefix in zip(figure.axes, ("none", "hierarchy"), strict=True):
        for label, form in (("raw text", "raw"), ("chat", "chat")):
            rows = of(several["agreement"], form, prefix).sort("alpha_low").to_dicts()
            points = [point for point in drawn(axes, label) if point[1] == point[1]]
            near(points, [((row["alpha_low"] + row["alpha_high"]) / 2, row["accuracy"]) for row in rows])
            if rows:
                band = next(c for c in axes.collections if c.get_label() == f"_interval {label}")
                heights = np.concatenate([path.vertices[:, 1] for path in band.get_paths()])
                assert heights.min() == pytest.approx(min(row["low"] for row in rows))
                assert heights.max() == pytest.approx(max(row["high"] for row in rows))


def test_sizes_has_a_line_a_family_solid_for_base_and_dotted_for_instruct(several):
    figure = FIGURES["sizes"](several["sizes"])
    for number, key in enumerate(PANELS):
        for axes, score in zip(figure.axes[2 * number : 2 * number + 2], ("win_rate", "robustness"), strict=True):
            assert axes.get_xscale() == "log"
            for label, instruct, style in (("fir, base", False, "-"), ("fir, instruct", True, ":")):
                rows = of(several["sizes"], *key).filter(pl.col("instruct") == instruct).sort("parameters").to_dicts()
                near(drawn(axes, label), [(row["parameters"], row[score]) for row in rows])
                near(
                    ends(axes, label),
                    [((r["parameters"], r[f"{score}_low"]), (r["parameters"], r[f"{score}_high"])) for r in rows],
                )
                assert {line.get_linestyle() for line in axes.lines if line.get_label() == label} <= {style}


def test_sizes_of_one_size_only(alone):
    axes = FIGURES["sizes"](alone["sizes"]).axes[0]
    low, high = axes.get_xlim()
    assert low < 1e9 < high
    assert "1B" in {text.get_text() for text in axes.get_xticklabels()}


def test_sizes_joins_no_models_of_unknown_family(several):
    figure = FIGURES["sizes"](several["sizes"].with_columns(pl.lit(None, pl.String).alias("family")))
    lines = [line for line in figure.axes[0].lines if line.get_label().startswith("family unknown")]
    assert lines and {line.get_linestyle() for line in lines} == {"None"}


def test_correlations_are_filled_where_significant(several):
    table = several["correlations"].drop_nulls("r").filter(pl.col("r").is_finite())
    figure = FIGURES["correlations"](several["correlations"])
    said = {"all": "both formats", "raw": "raw text", "chat": "chat"}
    cells = [(group, score) for group in ("all", "top") for score in ("win_rate", "robustness")]
    total = 0
    for axes, (group, score) in zip(figure.axes, cells, strict=True):
        order = ["popularity", "log_popularity", "log_distance", "log_duration", "other_objects"]
        if axes is figure.axes[0]:
            assert names(axes) == [
                "popularity", "ln popularity", "ln years from the present", "ln duration in years", "other objects",
            ]  # fmt: skip
        for step, form in enumerate(("all", "raw", "chat")):
            for sign in ("<", "≥"):
                label = f"{said[form]}, p {sign} 0.05"
                rows = table.filter(
                    pl.col("models") == group, pl.col("score") == score, pl.col("format") == form,
                    pl.col("p_clustered") < 0.05 if sign == "<" else pl.col("p_clustered") >= 0.05,
                ).to_dicts()  # fmt: skip
                near(drawn(axes, label), [(r["r"], order.index(r["factor"]) + (step - 1) * 0.3) for r in rows])
                total += len(rows)
                for line in (line for line in axes.lines if line.get_label() == label):
                    assert (line.get_markerfacecolor() == "white") == (sign == "≥")
    assert total == table.height


def test_factor_bins(several):
    figure = FIGURES["factor_bins"](several["factor_bins"])
    table = several["factor_bins"].filter(pl.col("models") == "all")
    factors = ("log_popularity", "log_distance", "log_duration", "other_objects")
    cells = [(factor, score) for factor in factors for score in ("win_rate", "robustness")]
    for axes, (factor, score) in zip(figure.axes, cells, strict=True):
        for label, form in (("raw text", "raw"), ("chat", "chat")):
            rows = table.filter(
                pl.col("factor") == factor, pl.col("score") == score, pl.col("format") == form
            ).to_dicts()  # fmt: skip
            near(drawn(axes, label), [(row["value_mean"], row["mean"]) for row in rows])
            near(ends(axes, label), [((r["value_mean"], r["low"]), (r["value_mean"], r["high"])) for r in rows])
    assert "more matches to lose" in figure.axes[5].texts[0].get_text()


def test_factor_bins_has_the_most_robust_of_more_than_five_models(several):
    """TimeStress, figure 18, beside figure 13."""
    of_top = pl.col("models") == "top"
    table = several["factor_bins"].with_columns(mean=pl.when(of_top).then(1 - pl.col("mean")).otherwise("mean"))
    axes = FIGURES["factor_bins"](table).axes[0]
    for models, words in (("all", "all models"), ("top", "the most robust")):
        rows = table.filter(
            pl.col("models") == models, pl.col("factor") == "log_popularity", pl.col("score") == "win_rate",
            pl.col("format") == "raw",
        )  # fmt: skip
        near(drawn(axes, f"raw text, {words}"), list(rows.select("value_mean", "mean").iter_rows()))


def test_relations_shows_the_ten_highest(several):
    base = several["relations"].filter(pl.col("format") == "raw").to_dicts()[0]
    rows = [base | {"rank": n, "relation": f"relation {n}", "robustness": 1 - n / 20} for n in range(1, 13)]
    axes = FIGURES["relations"](pl.DataFrame(rows[::-1])).axes[0]
    assert names(axes) == [f"relation {n} ({base['facts']})" for n in range(1, 11)]
    near(drawn(axes, "_dots"), [(1 - n / 20, n - 1) for n in range(1, 11)])
    near(ends(axes, ""), [((base["low"], n), (base["high"], n)) for n in range(10)])


def test_margins(several):
    figure = FIGURES["margins"](several["margins"])
    for axes, key in zip(figure.axes, PANELS, strict=False):
        part = of(several["margins"], *key).filter(pl.col("granularity") == "global")
        for model in part["model"].unique():
            rows = part.filter(pl.col("model") == model).sort("margin")
            near(drawn(axes, model), rows.select("margin", "robustness").rows())


def test_margins_of_many_models_greys_all_but_eight(study_of_many):
    axes = FIGURES["margins"](table_of(study_of_many, "margins")).axes[0]
    others = [line for line in axes.lines if line.get_label() == "other models"]
    own = {line.get_label() for line in axes.lines} & set(LONG)
    assert (len(own), len(others)) == (8, 10)


def test_fewer_contexts(several):
    table = several["fewer_contexts"]
    figure = FIGURES["fewer_contexts"](table)
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles == ["year", "month", "day"]
    for axes in figure.axes[:3]:
        part = table.filter(pl.col("granularity") == axes.get_title("left"))
        for row in part.filter(pl.col("share") == 1).top_k(1, by="robustness").to_dicts():
            own = part.filter(pl.col(k) == row[k] for k in ("model", "format", "prefix")).sort("contexts")
            drawings = [drawn(axes, line.get_label()) for line in axes.lines if line.get_label()[0] != "_"]
            assert any(
                len(points) == own.height and np.allclose(points, own.select("contexts", "robustness").rows())
                for points in drawings
            )


def test_timelines(several):
    table = several["timelines"]
    figure = FIGURES["timelines"](table)
    shown = [axes for axes in figure.axes if axes.lines]
    assert len(shown) == min(6, table["rank"].n_unique())
    for axes, rank in zip(shown, range(1, 7), strict=True):
        rows = table.filter(pl.col("rank") == rank).to_dicts()
        expected = {}
        for row in rows:
            kind = (
                "far error: beats one from |α| ≥ 1" if row["far"] else "incorrect, beats a correct year"
                if row["lost"] else "incorrect, beats no correct year"
            )  # fmt: skip
            kind = kind if row["status"] == "incorrect" else row["status"]
            expected.setdefault(kind, []).append((int(row["time"]), row["logp"]))
        for kind, points in expected.items():
            near(drawn(axes, kind), sorted(points))
        marks = sum(len(drawn(axes, kind)) for kind in expected)
        assert marks == len(rows)
        prior = drawn(axes, "without a date")
        assert [y for _, y in prior] == [rows[0]["prior"]] * 2
        (period,) = [patch for patch in axes.patches if patch.get_label() == "period"]
        start, end = (int(rows[0][side].rsplit("-", 2)[0] if rows[0][side].count("-") > 1 else rows[0][side])
                      for side in ("start", "end"))  # fmt: skip
        assert (period.get_x(), period.get_x() + period.get_width()) == (start - 0.5, end + 0.5)
        title = axes.get_title(loc="left").replace("\n", " ")
        assert rows[0]["object_label"] in title and rows[0]["model"] in title


def test_timelines_without_prior_dates_or_labels(several):
    one = several["timelines"].filter(pl.col("rank") == 1)
    nothing = {"prior": pl.Float64, **dict.fromkeys(["start", "end", "subject_label", "relation_label"], pl.String)}
    nothing["object_label"] = pl.String
    table = one.with_columns(pl.lit(None, kind).alias(name) for name, kind in nothing.items())
    axes = FIGURES["timelines"](table).axes[0]
    assert drawn(axes, "without a date") == []
    correct = one.filter(pl.col("status") == "correct")["time"].cast(pl.Int64)
    (period,) = [patch for patch in axes.patches if patch.get_label() == "period"]
    assert period.get_x() == correct.min() - 0.5
    assert period.get_x() + period.get_width() == correct.max() + 0.5
    assert one["fact_id"][0] in axes.get_title(loc="left")


def test_timelines_write_years_before_ours_in_words(several):
    one = several["timelines"].filter(pl.col("rank") == 1).with_columns(
        pl.lit(None, pl.String).alias("start"), pl.lit(None, pl.String).alias("end")
    )  # fmt: skip
    years = one["time"].cast(pl.Int64)
    moved = (years - int(years.median())).cast(pl.String)
    ancient = one.with_columns(moved.alias("time")).filter(pl.col("time") != "0")
    axes = FIGURES["timelines"](ancient).axes[0]
    low, high = axes.get_xlim()
    ticks = {place: text.get_text() for place, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)}
    assert low < 0 < high
    assert ticks == {
        place: f"{-place:g} BCE" if place < 0 else f"{place:g}" if place > 0 else "BCE | CE" for place in ticks
    }


def test_years_stacks_the_statuses(several):
    table = several["years"]
    assert table["first_year"].min() < 0
    axes = FIGURES["years"](table).axes[0]
    bars = {patch.get_label(): patch.get_data() for patch in axes.patches if isinstance(patch, StepPatch)}
    assert list(bars) == ["correct", "transitional", "incorrect"]
    rows = {row["first_year"]: row for row in table.to_dicts()}
    below = np.zeros(len(bars["correct"].values))
    for status, (values, edges, baseline) in bars.items():
        near(baseline, below)
        expected = [rows.get(int(start), {status: 0})[status] for start in edges[:-1]]
        near(values - baseline, expected)
        assert sum(values - baseline) == table[status].sum()
        below = values
    assert axes.get_ylabel() == "year contexts in 10 years"


STUDIES = ("several", *(pytest.param(name, marks=pytest.mark.slow) for name in ("alone", "many")))


@pytest.mark.share(2)
@pytest.mark.few(2)
@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("study", STUDIES)
def test_every_text_is_legible(name, study, request, monkeypatch):
    """At least 7 points, within the sheet, and neither over another text nor over a panel or a legend of others."""
    tables = request.getfixturevalue(study)
    if name not in tables:
        pytest.skip("this study has no such table")
    figure = FIGURES[name](tables[name])
    assert figure.get_figwidth() in (3.3, 6.9)
    texts = []  # those that reach the paper; matplotlib makes ticks beyond the limits of an axis too
    draw = Text.draw
    monkeypatch.setattr(Text, "draw", lambda text, renderer: (texts.append(text), draw(text, renderer))[1])
    FigureCanvasAgg(figure).draw()
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    assert shown
    sheet = figure.bbox
    for text in shown:
        assert text.get_fontsize() >= 7, text
        box = text.get_window_extent()
        assert sheet.x0 - 1 <= box.x0 and box.x1 <= sheet.x1 + 1, text
        assert sheet.y0 - 1 <= box.y0 and box.y1 <= sheet.y1 + 1, text
    level = [text for text in shown if text.get_rotation() in (0, 90)]
    boxes = [text.get_window_extent() for text in level]
    over = [
        (level[i].get_text(), level[j].get_text())
        for i in range(len(level)) for j in range(i) if _meet(boxes[i], boxes[j])
    ]  # fmt: skip
    assert over == []
    assert not [axes for axes in figure.axes if axes.axison and _beyond(axes)]
    areas = [axes.get_window_extent() for axes in figure.axes if axes.axison]
    areas += [legend.get_window_extent() for legend in figure.legends]
    assert not any(_meet(a, b) for n, a in enumerate(areas) for b in areas[n + 1 :])


def _beyond(axes):
    """Points of marks, lines and intervals that lie outside the limits of the axes, where they would be cut."""
    points = [line.get_xydata() for line in axes.lines if line.get_transform().contains_branch(axes.transData)]
    points += [s for c in axes.collections if isinstance(c, LineCollection) for s in c.get_segments()]
    (x0, x1), (y0, y1) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    return [
        (x, y) for part in points for x, y in part
        if x < x0 - 1e-9 or x > x1 + 1e-9 or y < y0 - 1e-9 or y > y1 + 1e-9
    ]  # fmt: skip


def _meet(a, b):
    """Whether two boxes overlap by more than a pixel."""
    return min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1


def test_a_dollar_in_a_name_is_a_dollar(alone):
    table = alone["summary"].with_columns(pl.lit("a$x_1$b").alias("model"))
    assert names(FIGURES["summary"](table).axes[0]) == ["a$x_1$b"]


def test_names_are_folded_and_never_cut():
    name = "meta-llama/Llama-3.1-70B-Instruct, bfloat16, revision 0e9e39f249a16976918f6564b8830bc894c89659"
    lines = folded(name, 20).split("\n")
    assert max(map(len, lines)) <= 20
    assert "".join(lines).replace(" ", "") == name.replace(" ", "")
    assert folded("short", 20) == "short"


def test_looks_differ_without_colour():
    looks = [look(n) for n in range(16)]
    assert len({(seen.marker, seen.hollow) for seen in looks}) == 16


@pytest.mark.full
def test_the_readers_settings_neither_change_a_figure_nor_are_changed(tmp_path, several):
    write_figure(FIGURES["formats"](several["formats"]), tmp_path / "ours", "formats")
    before = copy.deepcopy(dict(matplotlib.rcParams))
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "pdf.fonttype": 3, "svg.fonttype": "path"}):
        inside = copy.deepcopy(dict(matplotlib.rcParams))
        write_figure(FIGURES["formats"](several["formats"]), tmp_path / "theirs", "formats")
        assert dict(matplotlib.rcParams) == inside
    assert dict(matplotlib.rcParams) == before
    for ending in ("svg", "pdf", "png"):
        ours, theirs = (tmp_path / who / f"formats.{ending}" for who in ("ours", "theirs"))
        assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.full
def test_files_are_the_same_in_another_process(tmp_path, several):
    """The names in a file must not come from Python's hashes, which differ between processes."""
    several["overlap"].write_parquet(tmp_path / "overlap.parquet")
    code = (
        "import sys, polars as pl; from pathlib import Path; from anachron.analysis.analyses.overlap import draw;"
        "from anachron.report.figures import write_figure;"
        "out = Path(sys.argv[1]);"
        "write_figure(draw(pl.read_parquet(out.parent / 'overlap.parquet')), out, 'overlap')"
    )
    written = [write_figure(FIGURES["overlap"](several["overlap"]), tmp_path / "here", "overlap")]
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, str(tmp_path / seed)], check=True, env=environment)
        written.append([tmp_path / seed / f"overlap.{ending}" for ending in ("svg", "pdf", "png")])
    contents = [[path.read_bytes() for path in paths] for paths in written]
    assert contents[0] == contents[1] == contents[2]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["formats", "overlap", "years"])
def test_files_have_their_letters_with_them(name, tmp_path, several):
    svg, pdf, png = write_figure(FIGURES[name](several[name]), tmp_path, name)
    assert sorted(tmp_path.iterdir()) == [pdf, png, svg]
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF") and content.rstrip().endswith(b"%%EOF")
    assert b"/FontFile2" in content and b"/CIDFontType2" in content  # TrueType, embedded
    assert b"/Type3" not in content
    assert b"CreationDate" not in content
    root = ElementTree.fromstring(svg.read_bytes())
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert root.tag.endswith("svg") and "path" in tags
    assert "text" in tags and "image" not in tags  # text can be searched, and all is vectors
    fonts = {element.get("style", "") for element in root.iter() if element.tag.endswith("}text")}
    assert all("DejaVu Sans" in font and "sans-serif" in font for font in fonts)  # what to take where it is not there
    width, height = (int.from_bytes(png.read_bytes()[place : place + 4]) for place in (16, 20))  # PNG's header
    assert png.read_bytes().startswith(b"\x89PNG") and width > 900 and height > 300
    assert "date" not in tags
