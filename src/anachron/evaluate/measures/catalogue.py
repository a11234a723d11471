"""All measures of updates, in the order of the tables of a run."""

from anachron.evaluate.measures import atoke, audit, dated, generations, portability, scenarios, targets
from anachron.evaluate.measures.measure import Measure

MEASURES: tuple[Measure, ...] = (
    targets.TARGETS, targets.NEIGHBOURS, scenarios.OBJECTS, generations.GENERATIONS, portability.PORTABILITY,
    audit.AUDIT, dated.DATED, dated.DATED_NEIGHBOURS, atoke.ATOKE,
)  # fmt: skip
