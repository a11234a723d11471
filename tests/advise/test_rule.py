"""The advice in planted worlds with a known best way, and against naive arithmetic."""

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

from anachron.advise.balance import BALANCE, OF_PAST, PARTS, WEIGHTS, checked_weights, with_balance
from anachron.advise.rule import advise, leads, summary_of_ways
from anachron.analysis.statistics import korn_graubard_difference
from anachron.core.errors import ConfigError, DataError
from anachron.evaluate.results import UNEDITED

UPDATES, DRAWS = 50, 200
COSTS = {UNEDITED: 0.0, "PROMPT": 1.0, "RETRIEVAL": 2.0, "MEMIT": 30.0, "LoRA": 60.0}


@dataclass(frozen=True)
class World:
    """Of each way the chance that a question about the present, the past and other facts is right after it. best: the
    ways that are best; several tie, and then no difference is to be shown."""

    chances: dict[str, tuple[float, float, float]]
    best: tuple[str, ...]


NOTHING = (0.05, 0.9, 1.0)
WORLDS = {
    # the model reads what stands before a question; editors reach less and lose some of the past
    "reads context perfectly": World(
        {UNEDITED: NOTHING, "PROMPT": (0.98, 0.6, 0.8), "RETRIEVAL": (0.98, 0.88, 1.0), "MEMIT": (0.8, 0.4, 0.95),
         "LoRA": (0.9, 0.2, 0.6)}, ("RETRIEVAL",)
    ),
    "ignores context": World(
        {UNEDITED: NOTHING, "PROMPT": NOTHING, "RETRIEVAL": NOTHING, "MEMIT": (0.9, 0.7, 0.97),
         "LoRA": (0.9, 0.1, 0.5)}, ("MEMIT",)
    ),
    "edits erase the past": World(
        {UNEDITED: NOTHING, "PROMPT": (0.5, 0.85, 0.95), "RETRIEVAL": (0.85, 0.88, 0.99), "MEMIT": (1.0, 0.02, 0.9),
         "LoRA": (1.0, 0.02, 0.7)}, ("RETRIEVAL",)
    ),
    # what is found is out of date, so the model is told what it said before
    "retrieval returns stale passages": World(
        {UNEDITED: NOTHING, "PROMPT": (0.9, 0.85, 0.97), "RETRIEVAL": (0.02, 0.95, 0.98), "MEMIT": (0.7, 0.4, 0.9),
         "LoRA": (0.8, 0.1, 0.6)}, ("PROMPT",)
    ),
    "everything ties": World(dict.fromkeys(COSTS, (0.5, 0.5, 0.9)), tuple(COSTS)),
}  # fmt: skip


def drawn(world: World, seed: int) -> pl.DataFrame:
    """Balances of updates in a world: each part of an update is the share right of a few questions; the difficulty of
    an update is shared by all ways, as it is in truth."""
    random, rows = np.random.default_rng(seed), []
    for number in range(UPDATES):
        easy = random.normal(0, 0.7)
        for way, chances in world.chances.items():
            parts = []
            for chance, questions in zip(chances, (6, 12, 10), strict=True):
                odds = np.log(max(chance, 1e-3) / max(1 - chance, 1e-3)) + easy
                parts.append(random.binomial(questions, 1 / (1 + np.exp(-odds))) / questions)
            rows.append((way, str(number), f"subject {number}", "done", None, 0.1, *parts, 1.0))
    schema = ["way", "case_id", "subject", "status", "reason", "seconds", *PARTS]
    types = {"reason": pl.String, **dict.fromkeys(PARTS, pl.Float64)}
    return with_balance(pl.DataFrame(rows, schema=schema, schema_overrides=types, orient="row"))


@pytest.mark.parametrize("name", WORLDS)
def test_advice_is_right_in_planted_worlds(name: str) -> None:
    world, right = WORLDS[name], 0
    for seed in range(DRAWS):
        advice = advise(drawn(world, seed), COSTS)
        if len(world.best) == 1:
            right += advice.separated and advice.recommended == world.best[0]
        else:
            cheapest = min(world.best, key=COSTS.__getitem__)
            right += not advice.separated and advice.recommended == cheapest
    assert right >= 0.95 * DRAWS


def test_no_difference_names_the_cheapest() -> None:
    chances = {UNEDITED: NOTHING, "MEMIT": (0.9, 0.9, 0.99), "PROMPT": (0.9, 0.9, 0.99)}
    advice = advise(drawn(World(chances, ()), 1), COSTS)
    assert (advice.recommended, advice.separated, advice.tied) == ("PROMPT", False, ("PROMPT", "MEMIT"))
    assert advice.words == "no difference shown between PROMPT and MEMIT; the cheapest is PROMPT"


def test_nothing_is_advised_where_nothing_helps() -> None:
    chances = {UNEDITED: (0.5, 0.9, 1.0), "MEMIT": (0.5, 0.9, 1.0), "LoRA": (0.5, 0.1, 0.4)}
    advice = advise(drawn(World(chances, ()), 2), COSTS)
    assert advice.recommended == UNEDITED
    assert advice.words.startswith("no way was shown to be better than leaving the model as it is")
    assert advice.tied == (UNEDITED, "MEMIT")


def test_an_oracle_and_a_way_that_fails_are_not_recommended() -> None:
    balances = drawn(
        World({UNEDITED: NOTHING, "oracle": (1, 1, 1), "MEMIT": (0.9, 0.9, 0.9), "GRACE": (1, 1, 1)}, ()), 3
    )
    failed = pl.col("way").eq("GRACE") & pl.col("case_id").cast(pl.Int64).is_between(0, 5)
    balances = balances.with_columns(
        pl.when(failed).then(pl.lit("failed")).otherwise("status").alias("status"),
        pl.when(failed).then(pl.lit("out of memory")).otherwise("reason").alias("reason"),
        pl.when(failed).then(None).otherwise(BALANCE).alias(BALANCE),
    )
    advice = advise(balances, {}, {"oracle": "it is told"})
    assert (advice.recommended, advice.separated) == ("MEMIT", True)
    grace = "it failed on 12% of 50 updates, 6 of them: out of memory"
    assert advice.not_judged == {"oracle": "it is told", "GRACE": grace}


def test_a_failed_update_is_left_out_of_its_pair() -> None:
    balances = drawn(World({UNEDITED: NOTHING, "MEMIT": (0.9, 0.9, 0.9)}, ()), 4)
    lost = pl.col("way").eq("MEMIT") & pl.col("case_id").is_in(["3", "7"])
    balances = balances.with_columns(pl.when(lost).then(None).otherwise(BALANCE).alias(BALANCE))
    (row,) = leads(balances.drop_nulls(BALANCE), "MEMIT", [UNEDITED]).to_dicts()
    of_way = {
        way: dict(balances.filter(way=way).select("case_id", BALANCE).drop_nulls().iter_rows())
        for way in ("MEMIT", UNEDITED)
    }
    both = [case for case in of_way["MEMIT"] if case in of_way[UNEDITED]]
    gaps = [of_way["MEMIT"][case] - of_way[UNEDITED][case] for case in both]
    assert row["updates"] == len(gaps) == UPDATES - 2
    assert row["lead"] == pytest.approx(sum(gaps) / len(gaps))


def test_intervals_hold_together() -> None:
    """With three others each interval has 1 - 0.05 / 3, and is wider than the usual one."""
    balances = drawn(WORLDS["everything ties"], 5)
    table = leads(balances, "MEMIT", ["PROMPT", "LoRA", UNEDITED])
    first = balances.filter(way="MEMIT")[BALANCE].to_numpy()
    for row in table.iter_rows(named=True):
        other = balances.filter(way=row["way"])[BALANCE].to_numpy()
        wide = korn_graubard_difference(other, first, confidence=1 - 0.05 / 3)
        usual = korn_graubard_difference(other, first)
        assert (row["lead_low"], row["lead_high"]) == pytest.approx(wide)
        assert wide[0] < usual[0] and wide[1] > usual[1]


def test_balance_is_the_weighted_mean_of_what_is_known() -> None:
    rows = pl.DataFrame(
        {"present": [1.0, 0.4, None], "past": [0.5, None, None], "others": [0.8, 1.0, None],
         "fluency": [0.9, 0.6, None]},
        schema=dict.fromkeys(PARTS, pl.Float64),
    )  # fmt: skip
    found = with_balance(rows, checked_weights({"past": 2.0}))[BALANCE].to_list()
    assert found[0] == pytest.approx((1.0 + 2 * 0.5 + 0.8 + 0.5 * 0.9) / 4.5)
    assert found[1] == pytest.approx((0.4 + 1.0 + 0.5 * 0.6) / 2.5)
    assert found[2] is None


def test_summary_has_naive_means() -> None:
    balances = drawn(WORLDS["ignores context"], 6).with_columns(
        past_win_rate=pl.col("past") ** 2, past_robustness=pl.col("past").round()
    )
    for row in summary_of_ways(balances).iter_rows(named=True):
        of_way = balances.filter(way=row["way"])
        for part in (*PARTS, *OF_PAST, BALANCE):
            assert row[part] == pytest.approx(sum(of_way[part]) / UPDATES)
            assert row[f"{part}_low"] <= row[part] <= row[f"{part}_high"]
        assert (row["done"], row["failed"]) == (UPDATES, 0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"joy": 1.0}, "weights are of present"),
        ({"past": -1.0}, "from 0 on"),
        (dict.fromkeys(WEIGHTS, 0.0), "all weights"),
    ],
)
def test_bad_weights_are_refused(given: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        checked_weights(given)


def test_without_the_unedited_model_there_is_no_advice() -> None:
    with pytest.raises(DataError, match="unedited"):
        advise(drawn(World({"MEMIT": NOTHING}, ()), 7), {})


def with_balances(**ways: list[float]) -> pl.DataFrame:
    rows = [
        (UNEDITED if way == "nothing" else way, str(number), None, "done", None, value)
        for way, values in ways.items()
        for number, value in enumerate(values)
    ]
    schema = {**dict.fromkeys(("way", "case_id", "subject", "status", "reason"), pl.String), BALANCE: pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.lit(0.5).alias(part) for part in PARTS)


def test_what_is_no_better_than_nothing_is_not_recommended_for_being_cheap() -> None:
    """RETRIEVAL varies so much that it cannot be told from MEMIT, nor from leaving the model as it is."""
    found = with_balances(nothing=[0.6] * 24, MEMIT=[0.9] * 24, RETRIEVAL=[1.0] * 16 + [0.1] * 8)
    advice = advise(found, {"MEMIT": 30.0, "RETRIEVAL": 1.0})
    assert advice.best == "MEMIT" and advice.tied == ("RETRIEVAL", "MEMIT")
    assert advice.recommended == "MEMIT" and not advice.separated
    assert advice.words.endswith("the cheapest that was shown to be better than nothing is MEMIT")


def test_an_unknown_cost_is_not_the_cheapest() -> None:
    found = with_balances(nothing=[0.2] * 40, MEMIT=[0.9] * 40, PROMPT=[0.9] * 40)
    assert advise(found, {"MEMIT": 30.0}).recommended == "MEMIT"
    assert advise(found, {"MEMIT": 30.0, "PROMPT": 1.0}).recommended == "PROMPT"


def test_without_any_way_that_could_be_judged_nothing_is_separated() -> None:
    found = with_balances(nothing=[0.7] * 20, FT=[0.7] * 20).with_columns(
        pl.when(pl.col("way") == "FT").then(pl.lit("failed")).otherwise("status").alias("status")
    )
    advice = advise(found, {})
    assert (advice.recommended, advice.separated) == (UNEDITED, False)
    assert advice.words == "no way could be judged (FT), so the model is left as it is"


def test_updates_of_one_edit_count_together() -> None:
    """Ten edits of five updates, each edit good or bad as a whole: intervals over updates would be far too narrow."""
    values = [value for part in range(10) for value in [0.5 + (0.4 if part % 2 else -0.3)] * 5]
    found = with_balances(nothing=[0.5] * 50, MEMIT=values)
    parts = pl.col("case_id").cast(pl.Int64) // 5
    (alone,) = leads(found, "MEMIT", [UNEDITED]).to_dicts()
    (together,) = leads(found.with_columns(cluster=parts.cast(pl.String)), "MEMIT", [UNEDITED]).to_dicts()
    assert alone["lead"] == together["lead"] and together["lead_low"] < alone["lead_low"] - 0.1
    expected = korn_graubard_difference([0.5] * 50, values, [place // 5 for place in range(50)])
    assert (together["lead_low"], together["lead_high"]) == pytest.approx(expected)
