"""All measures of updates, in the order of the tables of a run."""

from anachron.evaluate.measures import atoke, audit, dated, generations, portability, scenarios, targets
from anachron.evaluate.measures.measure import Measure

MEASURES: tuple[Measure, ...] = (
    targets.TARGETS, targets.NEIGHBOURS, scenarios.MEASURE, generations.MEASURE, portability.MEASURE, audit.MEASURE,
    dated.DATES, dated.NEIGHBOURS, atoke.MEASURE,
)  # fmt: skip
