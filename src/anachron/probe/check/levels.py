"""From which values on verdicts are given, of models that are scored and of those that only answer."""

WRONG_PERIOD = "wrong period"  # the verdict
KNOWN = 0.9  # W of a fact that is known, or of a period that is believed in place of its own
OVERLAP = 0.5  # of the believed period and the true one, below which it is another
CHANCE, SURE = 0.04, 0.01  # the share of decoys that do as well: of a fact that is shaky, and of one that is known
AMONG = round(1 / SURE)  # decoys that a fact must be ranked among so that its chance can be so small
