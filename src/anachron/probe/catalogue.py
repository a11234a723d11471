"""Every table of a study: what it is called, where it comes from, what it needs, and how it is made.

This is the one place where an analysis is registered. `metrics`, `report` and the page read it; the figure of an
analysis has its name in `anachron.report.figures`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from anachron.probe.analyses import comparison, contexts, factors
from anachron.probe.analyses.agreement import agreement, in_bins
from anachron.probe.analyses.alpha import alpha_profile
from anachron.probe.analyses.believed import believed_summary
from anachron.probe.analyses.far_errors import far_errors
from anachron.probe.analyses.transfer import mean_transfer
from anachron.probe.study import Study

Need = Callable[[Study], str | None]  # why a study does not allow an analysis, or None


@dataclass(frozen=True)
class Analysis:
    """One row of the catalogue.

    name: of its files. title: what it shows, in a line. source: where the papers have it. needs: see `missing`.
    compute: the tidy table. large: one row a fact or more, so written as data only, not for print.
    empty: why its table can come out without a row although all needs are met.
    """

    name: str
    title: str
    source: str
    compute: Callable[[Study], pl.DataFrame]
    needs: tuple[Need, ...] = ()
    large: bool = False
    empty: str = "nothing in the scores belongs into it"

    def missing(self, study: Study) -> str | None:
        """Why a study does not allow this table; ``None`` when it does."""
        return next((reason for need in self.needs if (reason := need(study)) is not None), None)


def _all_granularities(study: Study) -> str | None:
    return None if study.together.height else "no fact has matches at year, month and day"


def _two_granularities(study: Study) -> str | None:
    found = study.facts.filter(pl.col("granularity") != "global")["granularity"].n_unique()
    return None if found > 1 else "no fact has matches at two granularities"


def _years(study: Study) -> str | None:
    found = study.facts.filter(pl.col("granularity") == "year").height
    return None if found else "no fact has matches at year granularity"


def _year_contexts(study: Study) -> str | None:
    dated = (pl.col("granularity") == "year") & (pl.col("status") != "none")
    if not any(run.select(dated.any()).item() for run in study.runs):
        return "no date is a year"
    broken = study.undatable.get("year")
    return None if broken is None else f"the time {broken!r} of a year context is no year (write YYYY)"


def _both_formats(study: Study) -> str | None:
    keys = comparison.run_keys(study.facts)
    return None if comparison.format_pairs(keys) else "no model has both raw and chat scores"


def _prefixes(study: Study) -> str | None:
    keys = comparison.run_keys(study.facts)
    return None if comparison.prefix_pairs(keys) else "no model has scores with a prefix and without"


def _several_models(study: Study) -> str | None:
    shared = study.together.group_by("format", "prefix").agg(pl.col("model").n_unique())
    return None if (shared["model"] > 1).any() else "no two models have runs of one format and prefix"


def _sizes(study: Study) -> str | None:
    known = study.models["parameters"].is_not_null().any()
    return None if known else "no model's number of parameters is known (give --models)"


def _families(study: Study) -> str | None:
    found = factors.size_to_perfection(study.sizes).height
    return None if found else "no family has two models of different and known size (give --models)"


def _pairs_of_base_and_instruct(study: Study) -> str | None:
    found = comparison.base_and_instruct(study.facts, study.models).height
    return None if found else "no instruct model is here with its base model in raw format (give --models)"


def _any_factor(study: Study) -> str | None:
    if not _plain(study).height:
        return "there is no run without a prefix"
    if not study.factors.height:
        return "the score tables do not say popularity, start, end or other_objects"
    found = study.factors.join(_plain(study), on="fact_id", how="semi").height
    return None if found else "nothing is known of the facts that a run without a prefix has at all granularities"


def _far_errors_to_show(study: Study) -> str | None:
    found = study.timelines.height
    return None if found else "no fact with 0.9 <= W < 1 lost a match at least one period away"


def _aligned(study: Study) -> str | None:
    if not study.aligned.height:
        return "no fact of the most robust models is known at any granularity"
    return None if in_bins(study.aligned).height else "no date of a known fact lies within five periods of it"


def _anachronisms(study: Study) -> str | None:
    return None if study.absurd[0].height else "no impossible or far date beat a true one"


def _dates(study: Study) -> str | None:
    known = study.about.select(pl.col("subject_from", "object_from").is_not_null().any()).row(0)
    broken = next(iter(study.undatable.values()), None)
    if broken is None or not any(known):
        return None
    return f"the time {broken!r} is no date (write YYYY, YYYY-MM or YYYY-MM-DD)"


def _pairs_with_baseline(study: Study) -> list[tuple[comparison.RunKey, comparison.RunKey]]:
    return comparison.baseline_pairs(comparison.run_keys(study.facts), study.baseline)


def _against_baseline(study: Study) -> str | None:
    if _pairs_with_baseline(study):
        return None
    if study.baseline is None:
        return "there is one model only in each format and prefix"
    return f"the baseline {study.baseline} has no run in the format and prefix of another model"


def _comparison(study: Study) -> pl.DataFrame:
    return comparison.compare(study.facts, _pairs_with_baseline(study), resamples=study.resamples, seed=study.seed)


def _plain(study: Study) -> pl.DataFrame:
    """Global rows of the runs without a prefix: those that the papers relate to what is known of facts."""
    return study.together.filter(pl.col("prefix") == "none")


def _relations(study: Study) -> str | None:
    if not _plain(study).height:
        return "there is no run without a prefix"
    named = study.about.filter(pl.col("relation_label").is_not_null())
    found = _plain(study).join(named, on="fact_id", how="semi").height
    return None if found else "no fact of a run without a prefix has a relation_label and matches at all granularities"


def _compared(
    pairs: Callable[..., list[tuple[comparison.RunKey, comparison.RunKey]]],
) -> Callable[[Study], pl.DataFrame]:
    def compute(study: Study) -> pl.DataFrame:
        chosen = pairs(comparison.run_keys(study.facts))
        return comparison.compare(study.facts, chosen, resamples=study.resamples, seed=study.seed)

    return compute


ANALYSES: tuple[Analysis, ...] = (
    Analysis("facts", "Win rate W and robustness R of every fact", "002, section 3.1", lambda s: s.facts, large=True),
    Analysis(
        "summary", "Mean W and R of each model, by granularity", "002, figures 2 and 12; 001, figures 2 and 4",
        lambda s: s.summary,
    ),
    Analysis(
        "alpha", "Log-probability of the answer by relative distance from the period", "002, figure 3; 001, figure 3",
        lambda s: alpha_profile(s.runs, resamples=s.resamples, seed=s.seed), (_years,),
    ),
    Analysis(
        "alpha_fine", "The same in fine bins, for the three granularities", "002, figure 15",
        lambda s: alpha_profile(s.runs, fine=True, resamples=s.resamples, seed=s.seed),
    ),
    Analysis(
        "far_errors", "Share of lost matches far from the period, on facts that seem known", "002, figures 4 and 7",
        lambda s: far_errors(s.lost, s.facts, s.most_robust, resamples=s.resamples, seed=s.seed), (_years,),
    ),
    Analysis(
        "formats", "Raw text against chat", "002, figure 5; 001, figure 5",
        _compared(comparison.format_pairs), (_both_formats,), empty="no fact has scores both raw and in chat",
    ),
    Analysis(
        "transfer", "Known at one granularity given known at another", "002, figures 6, 9 and 10",
        lambda s: s.transfer, (_two_granularities,),
    ),
    Analysis(
        "transfer_mean", "Mean transfer between two granularities, with each prefix", "002, figures 6 and 10",
        lambda s: mean_transfer(s.transfer), (_two_granularities,),
    ),
    Analysis(
        "agreement", "How often two granularities agree on a wrong date, by distance", "002, figure 8",
        lambda s: agreement(s.aligned, resamples=s.resamples, seed=s.seed), (_all_granularities, _aligned),
    ),
    Analysis(
        "prefixes", "W and R with a prefix against without", "002, figure 10; 001, section 4.6",
        _compared(comparison.prefix_pairs), (_prefixes,), empty="no fact has scores both with a prefix and without",
    ),
    Analysis(
        "granularity_variance", "Variance of R between granularities, with a prefix over without", "001, figure 6",
        lambda s: comparison.granularity_variance(s.facts, resamples=s.resamples, seed=s.seed), (_prefixes,),
        empty="no fact has matches at year, month and day both with a prefix and without",
    ),
    Analysis(
        "sizes", "W and R against the number of parameters", "002, figure 11; 001, figure 7",
        lambda s: s.sizes, (_all_granularities, _sizes),
        empty="no model of known size has facts with matches at year, month and day",
    ),
    Analysis(
        "size_to_perfection", "Size at which each family would reach R = 1", "001, figure 7",
        lambda s: factors.size_to_perfection(s.sizes), (_all_granularities, _sizes, _families),
    ),
    Analysis(
        "base_and_instruct", "Facts that instruct models win, tie and lose against their base", "001, figure 9",
        lambda s: comparison.base_and_instruct(s.facts, s.models), (_all_granularities, _pairs_of_base_and_instruct),
    ),
    Analysis(
        "correlations", "What W and R go with: Pearson's r", "002, figures 13 and 18, section 4.2; 001, figure 8",
        lambda s: factors.correlations(s.factors, _plain(s), s.most_robust), (_all_granularities, _any_factor),
    ),
    Analysis(
        "factor_bins", "W and R by popularity, distance, duration and other objects",
        "002, figures 13 and 18; 001, figure 8",
        lambda s: factors.factor_bins(s.factors, _plain(s), s.most_robust, resamples=s.resamples, seed=s.seed),
        (_all_granularities, _any_factor),
    ),
    Analysis(
        "relations", "R of each relation, the highest first", "002, figure 16",
        lambda s: factors.relations(s.about, _plain(s), resamples=s.resamples, seed=s.seed),
        (_all_granularities, _relations),
    ),
    Analysis(
        "overlap", "Facts that two models know robustly", "002, section 4.2",
        lambda s: comparison.overlap(s.facts, comparison.run_keys(s.together)), (_all_granularities, _several_models),
        empty="no two models have a fact in common",
    ),
    Analysis(
        "shared_knowledge", "Facts that all of the models know robustly", "002, section 4.2",
        lambda s: comparison.shared_knowledge(s.facts, comparison.run_keys(s.together), s.most_robust.rows()),
        (_all_granularities, _several_models),
    ),
    Analysis(
        "comparison", "Every model against the baseline, on the same facts", "beyond the papers",
        _comparison, (_against_baseline,), empty="no model has a fact in common with the baseline",
    ),
    Analysis(
        "margins", "Facts whose every match is won by more than a margin", "beyond the papers",
        lambda s: contexts.robust_with_margin(s.map(contexts.margins)),
    ),
    Analysis(
        "timelines", "Facts that seem known, with errors far from their period, year by year", "002, figure 17",
        lambda s: s.timelines, (_years, _year_contexts, _far_errors_to_show),
        large=True,
    ),
    Analysis(
        "believed", "When a model believes that each fact holds, and how far off that is", "beyond the papers",
        lambda s: s.believed, (_year_contexts,), large=True,
    ),
    Analysis(
        "believed_summary", "How well believed periods fit the true ones", "beyond the papers",
        lambda s: believed_summary(s.believed, resamples=s.resamples, seed=s.seed), (_year_contexts,),
    ),
    Analysis(
        "anachronisms", "Impossible or far dates preferred to true ones: the 200 most absurd of each run",
        "beyond the papers", lambda s: s.absurd[0], (_dates, _anachronisms), large=True,
    ),
    Analysis(
        "anachronism_summary", "How many facts are placed at absurd dates", "beyond the papers",
        lambda s: s.absurd[1], (_dates,),
    ),
    Analysis(
        "years", "Years asked about", "002, figure 14", lambda s: contexts.years(s.contexts),
        (_year_contexts,),
    ),
    Analysis(
        "dataset", "The data set in numbers", "002, section 3.2; 001, table 2",
        lambda s: contexts.dataset_statistics(s.contexts, s.about),
    ),
)  # fmt: skip


def make_tables(study: Study) -> tuple[dict[str, pl.DataFrame], dict[str, str]]:
    """Every table that a study allows, by name, and the reasons of those that it does not."""
    tables: dict[str, pl.DataFrame] = {}
    left_out: dict[str, str] = {}
    for analysis in ANALYSES:
        reason = analysis.missing(study)
        if reason is None:
            table = analysis.compute(study)
            if table.height:
                tables[analysis.name] = table
            reason = None if table.height else analysis.empty
        if reason is not None:
            left_out[analysis.name] = reason
    return tables, left_out
