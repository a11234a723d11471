"""Who is asked where a caller names a model, gives a loaded one, or says who answers."""

from typing import TYPE_CHECKING

from anachron.core.errors import ConfigError
from anachron.probe.respondent import Respondent

if TYPE_CHECKING:
    from anachron.lm.scorer import Scorer
    from anachron.probe.run import ProbeSettings


def respondent_of(model: "str | Scorer | Respondent", settings: "ProbeSettings | None" = None) -> Respondent:
    """A model that is scored by its name or as it is loaded; who answers, as they are.

    Raises `ConfigError` for settings of scores beside somebody who has their own.
    """
    if isinstance(model, Respondent):
        if settings is not None:
            raise ConfigError(f"settings are for a model that is scored; give them to {type(model).__name__} instead")
        return model
    from anachron.probe.by_scores import ByScores  # it loads torch, which asking a server does without
    from anachron.probe.run import ProbeSettings

    return ByScores(model, settings or ProbeSettings())
