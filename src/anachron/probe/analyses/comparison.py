"""Two runs on the same facts: formats, prefixes, base and instruct, before and after (papers 002 and 001)."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from anachron.core.dates import GRANULARITIES
from anachron.metrics import GLOBAL, RUN_KEYS
from anachron.statistics import RESAMPLES, bootstrap_ratio, mcnemar, paired_bootstrap

RunKey = tuple[str, str, str]


def paired(facts: pl.DataFrame, first: RunKey, second: RunKey) -> pl.DataFrame:
    """W and R of two runs side by side, on the facts and granularities that both have.

    Returns ``fact_id, granularity, win_rate, robustness, win_rate_second, robustness_second``.
    """
    columns = ["fact_id", "granularity", "win_rate", "robustness"]
    one, two = (
        facts.filter(pl.all_horizontal(pl.col(k) == v for k, v in zip(RUN_KEYS, key, strict=True))).select(columns)
        for key in (first, second)
    )
    return one.join(two, on=["fact_id", "granularity"], suffix="_second", maintain_order="left")


def compare(
    facts: pl.DataFrame, pairs: Sequence[tuple[RunKey, RunKey]], *, resamples: int = RESAMPLES, seed: int = 0
) -> pl.DataFrame:
    """Differences second minus first on the facts that both runs have, at each granularity and global.

    Per pair and granularity: the keys of both (``against_...`` is the first), ``facts``, mean W and R of each,
    ``win_rate_difference`` and ``robustness_difference`` with interval and p (``..._difference_low, _high, _p``) by the
    paired bootstrap over facts,
    ``gained`` and ``lost`` (facts robust in one of the two only) and McNemar's exact p of them.
    """
    rows: list[dict[str, Any]] = []
    for first, second in pairs:
        both = paired(facts, first, second)
        for granularity in (*GRANULARITIES, GLOBAL):
            group = both.filter(pl.col("granularity") == granularity)
            if not group.height:
                continue
            row: dict[str, Any] = dict(zip(RUN_KEYS, second, strict=True))
            row |= dict(zip([f"against_{k}" for k in RUN_KEYS], first, strict=True))
            row |= {"granularity": granularity, "facts": group.height}
            for name in ("win_rate", "robustness"):
                before, after = group[name].to_numpy(), group[f"{name}_second"].to_numpy()
                found = paired_bootstrap(before, after, resamples=resamples, seed=seed)
                row |= {f"against_{name}": before.mean(), name: after.mean(), f"{name}_difference": found.difference}
                row |= {f"{name}_difference_{end}": getattr(found, end) for end in ("low", "high", "p")}
            gained = int(((group["robustness"] == 0) & (group["robustness_second"] == 1)).sum())
            lost = int(((group["robustness"] == 1) & (group["robustness_second"] == 0)).sum())
            rows.append(row | {"gained": gained, "lost": lost, "mcnemar_p": mcnemar(gained, lost)})
    return pl.DataFrame(rows, infer_schema_length=None)


def run_keys(facts: pl.DataFrame) -> list[RunKey]:
    return [(m, f, p) for m, f, p in facts.select(RUN_KEYS).unique(maintain_order=True).iter_rows()]


def format_pairs(keys: Sequence[RunKey]) -> list[tuple[RunKey, RunKey]]:
    """(raw, chat) of every model and prefix that has both. Source: paper 002, figure 5; 001, figure 5."""
    return [((m, "raw", p), (m, f, p)) for m, f, p in keys if f == "chat" and (m, "raw", p) in keys]


def prefix_pairs(keys: Sequence[RunKey]) -> list[tuple[RunKey, RunKey]]:
    """(without, with) of every model, format and prefix."""
    return [((m, f, "none"), (m, f, p)) for m, f, p in keys if p != "none" and (m, f, "none") in keys]


def baseline_pairs(keys: Sequence[RunKey], baseline: str | None) -> list[tuple[RunKey, RunKey]]:
    """(baseline, other model) in the same format and prefix; by default the first model of each is the baseline."""
    first: dict[tuple[str, str], str] = {}
    for m, f, p in keys:
        first.setdefault((f, p), m)
    pairs = [((baseline or first[f, p], f, p), (m, f, p)) for m, f, p in keys]
    return [(one, two) for one, two in pairs if one != two and one in keys]


def base_and_instruct(facts: pl.DataFrame, models: pl.DataFrame) -> pl.DataFrame:
    """How many facts an instruct model wins, ties and loses against its base, by global W and by global R.

    Both are taken in raw format; a chat run of the instruct model is also set against the raw run of its base, as a
    base model has no chat format. Returns RUN_KEYS of the instruct run, ``base, score (win_rate|robustness), facts,
    win, tie, loss`` (counts). Source: paper 001, figure 9.
    """
    rows: list[dict[str, Any]] = []
    keys = run_keys(facts)
    for model, base in models.filter(pl.col("base").is_not_null()).select("model", "base").iter_rows():
        for m, form, prefix in keys:
            if m != model or (base, "raw", prefix) not in keys:
                continue
            both = paired(facts, (base, "raw", prefix), (m, form, prefix)).filter(pl.col("granularity") == GLOBAL)
            if not both.height:
                continue
            for score in ("win_rate", "robustness"):
                gap = (both[f"{score}_second"] - both[score]).round(9)  # the mean of three W depends on their order
                counts = {"win": int((gap > 0).sum()), "tie": int((gap == 0).sum()), "loss": int((gap < 0).sum())}
                row = {"model": m, "format": form, "prefix": prefix, "base": base, "score": score}
                rows.append(row | {"facts": both.height} | counts)
    return pl.DataFrame(rows, infer_schema_length=None)


def granularity_variance(facts: pl.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """Mean variance of R between the granularities of a fact, with a prefix over without it (below 1: reduced).

    The variance is that of three numbers (divisor 3), the mean is over facts that have all three in both runs, the
    interval resamples facts. Returns RUN_KEYS, ``facts, variance, variance_without, ratio, low, high``; the ratio is
    null where there is no variance without the prefix. Source: paper 001, section 4.6 and figure 6.
    """
    wide = (
        facts.filter(pl.col("granularity").is_in(list(GRANULARITIES)))
        .group_by([*RUN_KEYS, "fact_id"], maintain_order=True)
        .agg(pl.col("robustness").var(ddof=0).alias("variance"), pl.len().alias("n"))
        .filter(pl.col("n") == len(GRANULARITIES))
    )
    rows: list[dict[str, Any]] = []
    for (model, form, _), (_, _, prefix) in prefix_pairs(run_keys(facts)):
        one, two = (
            wide.filter(pl.col("model") == model, pl.col("format") == form, pl.col("prefix") == p).select(
                "fact_id", "variance"
            )
            for p in ("none", prefix)
        )
        both = one.join(two, on="fact_id", suffix="_with", maintain_order="left")
        without, having = both["variance"].to_numpy(), both["variance_with"].to_numpy()
        if not both.height:
            continue
        row: dict[str, Any] = {"model": model, "format": form, "prefix": prefix, "facts": both.height}
        row |= {"variance": float(having.mean()), "variance_without": float(without.mean())}
        row |= {"ratio": None, "low": None, "high": None}
        if without.sum() > 0:
            low, high = bootstrap_ratio(having[:, None], without[:, None], resamples=resamples, seed=seed)
            row |= {"ratio": float(having.sum() / without.sum()), "low": float(low[0]), "high": float(high[0])}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def overlap(facts: pl.DataFrame, keys: Sequence[RunKey]) -> pl.DataFrame:
    """Jaccard index of the globally robust facts of every two of the given runs of one format and prefix.

    Over the facts for which both runs have a global row.

    Returns ``format, prefix, model, other, robust_both, robust_any, jaccard`` (null where neither has one).
    Source: paper 002, section 4.2.
    """
    together = facts.filter(pl.col("granularity") == GLOBAL)
    rated = {key: set(group["fact_id"]) for key, group in together.group_by(RUN_KEYS)}
    robust = {
        key: set(group["fact_id"]) for key, group in together.filter(pl.col("robustness") == 1).group_by(RUN_KEYS)
    }
    rows = []
    for i, (model, form, prefix) in enumerate(keys):
        for other, other_form, other_prefix in keys[i + 1 :]:
            if (form, prefix) == (other_form, other_prefix):
                own_key, other_key = (model, form, prefix), (other, form, prefix)
                asked = rated.get(own_key, set()) & rated.get(other_key, set())
                if not asked:
                    continue
                one, two = (robust.get(key, set()) & asked for key in (own_key, other_key))
                both, either = len(one & two), len(one | two)
                row: dict[str, Any] = {"format": form, "prefix": prefix, "model": model, "other": other}
                rows.append(
                    row | {"robust_both": both, "robust_any": either, "jaccard": both / either if either else None}
                )
    return pl.DataFrame(rows, infer_schema_length=None)


def shared_knowledge(facts: pl.DataFrame, all_keys: Sequence[RunKey], top_keys: Sequence[RunKey]) -> pl.DataFrame:
    """Mean Jaccard over pairs, and facts robust in all and in any of a group of models, per format and prefix.

    Groups: ``all`` models, and ``top``, the most robust. Returns ``format, prefix, group, models, pairs, mean_jaccard,
    robust_in_all, robust_in_any, share``; ``pairs`` counts those in the mean: without two that know nothing.
    Source: paper 002, section 4.2.
    """
    together = facts.filter((pl.col("granularity") == GLOBAL) & (pl.col("robustness") == 1))
    rows: list[dict[str, Any]] = []
    for name, keys in (("all", all_keys), ("top", top_keys)):
        for form, prefix in dict.fromkeys((f, p) for _, f, p in keys):
            own = [key for key in keys if key[1:] == (form, prefix)]
            if len(own) < 2:
                continue
            pairs = overlap(facts, own)
            if not pairs.height:
                continue
            members = pl.DataFrame(own, schema=RUN_KEYS, orient="row")
            times = together.join(members, on=RUN_KEYS, how="semi").group_by("fact_id").len()
            in_all = int((times["len"] == len(own)).sum())
            row: dict[str, Any] = {"format": form, "prefix": prefix, "group": name, "models": len(own)}
            row |= {"pairs": pairs["jaccard"].count()}
            row |= {"mean_jaccard": pairs["jaccard"].mean(), "robust_in_all": in_all, "robust_in_any": times.height}
            rows.append(row | {"share": in_all / times.height if times.height else None})
    return pl.DataFrame(rows, infer_schema_length=None)
