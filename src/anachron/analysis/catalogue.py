"""Every analysis of a study, in the order of the report. Each stands in one module, see
`anachron.analysis.analyses`."""

from collections.abc import Callable

import polars as pl

from anachron.analysis.analyses.agreement import AGREEMENT
from anachron.analysis.analyses.alpha import ALPHA, ALPHA_FINE
from anachron.analysis.analyses.anachronisms import ANACHRONISM_SUMMARY, ANACHRONISMS
from anachron.analysis.analyses.analysis import Analysis
from anachron.analysis.analyses.asked import ASKED, ASKED_FACTS
from anachron.analysis.analyses.base_and_instruct import BASE_AND_INSTRUCT
from anachron.analysis.analyses.believed import BELIEVED, BELIEVED_SUMMARY
from anachron.analysis.analyses.bridge import BRIDGE, BRIDGE_FACTS, CONVERSION
from anachron.analysis.analyses.comparison import COMPARISON, PREFIXES, RAW_AND_CHAT
from anachron.analysis.analyses.crossed import CROSSED, CROSSED_PAIRS
from anachron.analysis.analyses.dataset import DATASET, YEARS_ASKED
from anachron.analysis.analyses.decoys import DECOY_FACTS, DECOY_MEANS
from anachron.analysis.analyses.factors import CORRELATIONS, FACTOR_BINS
from anachron.analysis.analyses.far_errors import FAR_ERRORS
from anachron.analysis.analyses.fewer_contexts import FEWER_CONTEXTS
from anachron.analysis.analyses.granularity_variance import GRANULARITY_VARIANCE
from anachron.analysis.analyses.lifespans import LIFESPANS
from anachron.analysis.analyses.margins import MARGINS
from anachron.analysis.analyses.overlap import OVERLAP, SHARED_KNOWLEDGE
from anachron.analysis.analyses.relations import RELATIONS
from anachron.analysis.analyses.sizes import SIZE_TO_PERFECTION, SIZES
from anachron.analysis.analyses.summary import FACTS, SUMMARY
from anachron.analysis.analyses.timelines import TIMELINES
from anachron.analysis.analyses.transfer import TRANSFER, TRANSFER_MEAN
from anachron.analysis.analyses.wordings import WORDINGS
from anachron.analysis.study import Study

ANALYSES: tuple[Analysis, ...] = (
    FACTS, SUMMARY, CROSSED, CROSSED_PAIRS, DECOY_MEANS, DECOY_FACTS, ALPHA, ALPHA_FINE, FAR_ERRORS, RAW_AND_CHAT,
    TRANSFER, TRANSFER_MEAN, AGREEMENT, PREFIXES, GRANULARITY_VARIANCE, SIZES, SIZE_TO_PERFECTION, BASE_AND_INSTRUCT,
    CORRELATIONS, FACTOR_BINS, RELATIONS, OVERLAP, SHARED_KNOWLEDGE, COMPARISON, MARGINS, FEWER_CONTEXTS, WORDINGS,
    TIMELINES, BELIEVED, BELIEVED_SUMMARY, ANACHRONISMS, ANACHRONISM_SUMMARY, LIFESPANS, YEARS_ASKED, DATASET,
)  # fmt: skip


OF_ANSWERS: tuple[Analysis, ...] = (ASKED, ASKED_FACTS, BRIDGE_FACTS, BRIDGE, CONVERSION)


def every_analysis() -> tuple[Analysis, ...]:
    """Those of scores, then those of answers."""
    return (*ANALYSES, *OF_ANSWERS)


def analyses_of(study: Study) -> tuple[Analysis, ...]:
    """Those that a study may have: of scores where it has any, of answers where it has any."""
    return (*(ANALYSES if study.runs else ()), *(OF_ANSWERS if study.answers is not None else ()))


def make_tables(
    study: Study, progress: Callable[[int, int], None] = lambda done, total: None
) -> tuple[dict[str, pl.DataFrame], dict[str, str]]:
    """Every table that a study allows, by name, and the reasons of those that it does not.

    progress: told how many analyses are done, out of how many.
    """
    tables: dict[str, pl.DataFrame] = {}
    left_out: dict[str, str] = {}
    analyses = analyses_of(study)
    for done, analysis in enumerate(analyses):
        progress(done, len(analyses))
        reason = analysis.missing(study)
        if reason is None:
            table = analysis.compute(study)
            if table.height:
                tables[analysis.name] = table
            reason = None if table.height else analysis.empty
        if reason is not None:
            left_out[analysis.name] = reason
    progress(len(analyses), len(analyses))
    return tables, left_out
