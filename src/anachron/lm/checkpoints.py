"""Whether a checkpoint fills a model: what it lacks, what it holds besides, and the likely cause.

transformers gives random numbers to weights that a checkpoint lacks and drops those that the model has no place for. So
nothing may be missing or of another shape, and nothing may be left over but what cannot change a score: tables that
older versions saved and the model's own code computes, and parts beside the text decoder, such as a vision tower.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

SHOWN = 3  # names in a message
WRAPPERS = {
    "module.": "DataParallel or DistributedDataParallel",
    "_orig_mod.": "torch.compile",
    "_fsdp_wrapped_module.": "FSDP",
    "base_model.model.": "PEFT",
}
# Masks and position tables, directly under a module of the model or under one of its modules without weights
COMPUTED = re.compile(
    r"(^|\.)(inv_freq|original_inv_freq|cos_cached|sin_cached|position_ids|masked_bias|causal_mask"
    r"|(attn|attention)\.bias|embed_positions\.(weights|_float_tensor)|decoder\.version)$"
)
# Modules for other input than text, that speak, predict further tokens (MTP), or value a text in training (v_head)
BESIDE = re.compile(
    r"(^|_)(vision|visual|vit|image|video|audio|speech|sound|multi_?modal|mm|talker|code2wav|token2wav|mtp|v_head)(_|$)"
)

# Heads of models that judge texts: classifiers and reward models
JUDGING = re.compile(r"^(score|classifier|qa_outputs|(reward|value|regression|classification)_head)\.")


@dataclass(frozen=True)
class Filling:
    """What became of a model's weights when a checkpoint was loaded into it.

    kind: the model's class. expected: names of all its tensors. missing: those that the checkpoint lacks, but for tied
    and computed ones. unexpected: names in the checkpoint that are not of the model. shapes: (in the checkpoint, in the
    model) of those that differ. saved_as: classes that the configuration names. head: the output head's name.
    extra_layers: how many layers for the prediction of further tokens the configuration puts behind its own.
    """

    kind: str
    expected: Collection[str]
    missing: Collection[str] = ()
    unexpected: Collection[str] = ()
    shapes: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    saved_as: Sequence[str] = ()
    head: str | None = None
    extra_layers: int = 0


def harmless(filling: Filling) -> list[str]:
    """The unexpected names that cannot change a score of text, sorted."""
    known = _prefixes(filling.expected)
    return sorted(name for name in filling.unexpected if _harmless(name, known, filling.extra_layers))


def fault(filling: Filling) -> str | None:
    """What is wrong with a checkpoint, what it means and what to do; ``None`` where it fills the model."""
    strange = sorted(set(filling.unexpected) - set(harmless(filling)))
    missing, total = sorted(filling.missing), len(filling.expected)
    faults = []
    if missing:
        faults.append(f"{len(missing)} of its {total} tensors are missing ({some(missing)})")
    if filling.shapes:
        shapes = [f"{name} is {given}, not {wanted}" for name, (given, wanted) in sorted(filling.shapes.items())]
        faults.append(f"{len(shapes)} of {total} have another shape ({some(shapes)})")
    if strange:
        faults.append(f"{len(strange)} in the checkpoint have no place in it ({some(strange)})")
    return f"{', '.join(faults)}: {_meaning(filling, missing, strange)}" if faults else None


def _meaning(filling: Filling, missing: list[str], strange: list[str]) -> str:
    """The likeliest reason, the most telling first, and the way out."""
    others = [kind for kind in filling.saved_as if kind != filling.kind]
    if prefix := _wrapped(strange, filling.expected):
        of = f", as saved from {WRAPPERS[prefix]}" if prefix in WRAPPERS else ""
        return f"its names begin with {prefix!r}{of}; strip that and save it again"
    if any("lora_" in name for name in strange):
        return "it holds an adapter's weights besides; merge them into the model (merge_and_unload) and save it again"
    if heads := [name for name in strange if JUDGING.search(name)]:
        saved = f", here a {others[0]}" if others else ""
        return f"{heads[0]} is the head of a classifier or reward model{saved}; give a checkpoint of {filling.kind}"
    if others:
        return f"config.json says that it was saved as {others[0]}; give a checkpoint of {filling.kind}"
    if beyond := _layer_beyond(strange, _prefixes(filling.expected)):
        return (
            f"it holds {beyond[0]}, but config.json asks for {beyond[1]} layers; give the config.json of these weights"
        )
    if missing and not strange and all(name.rpartition(".")[0] == filling.head for name in missing):
        return (
            "it was saved without its output head, as base models are, and config.json does not tie that to the "
            "embeddings; save the whole causal model"
        )
    if len(missing) == len(filling.expected):
        return "it is a checkpoint of another architecture; give it its own config.json"
    if strange or filling.shapes:
        return "it does not belong to its config.json; give the configuration that these weights were saved with"
    return "the checkpoint is not whole; download or save it again"


def _harmless(name: str, known: Collection[str], extra_layers: int) -> bool:
    parts = name.split(".")
    if COMPUTED.search(name) and ".".join(parts[:-2]) in known:
        return True
    parent, new = _branch(name, known)
    if new.isdigit():  # a further item of a list of layers
        count = _items(parent, known)
        return count <= int(new) < count + extra_layers
    return not any(part.isdigit() for part in parent.split(".")) and BESIDE.search(new) is not None


def _prefixes(names: Collection[str]) -> set[str]:
    """Names of all tensors and of the modules that hold them; "" is the model."""
    split = [name.split(".") for name in names]
    return {".".join(parts[:end]) for parts in split for end in range(len(parts) + 1)}


def _branch(name: str, known: Collection[str]) -> tuple[str, str]:
    """(module of the model, first part of the name that it does not have)."""
    parts = name.split(".")
    end = next((end for end in range(len(parts)) if ".".join(parts[: end + 1]) not in known), len(parts) - 1)
    return ".".join(parts[:end]), parts[end]


def _items(module: str, known: Collection[str]) -> int:
    """How many numbered items a list of modules has."""
    below = (name.removeprefix(f"{module}.") for name in known if name.startswith(f"{module}."))
    return sum(name.isdigit() for name in below)


def _layer_beyond(strange: list[str], known: Collection[str]) -> tuple[str, int] | None:
    """A layer that the model does not have, with the number of those that it has."""
    for name in strange:
        parent, new = _branch(name, known)
        if new.isdigit() and _items(parent, known):
            return f"{parent}.{new}", _items(parent, known)
    return None


def _wrapped(strange: list[str], expected: Collection[str]) -> str | None:
    """The prefix of all strange names, where names of the model follow it, with or without their first part."""
    if not strange:
        return None
    known = {*expected, *(rest for name in expected if "." in (rest := name.partition(".")[2]))}
    parts = strange[0].split(".")
    prefixes = [".".join(parts[:end]) + "." for end in range(1, len(parts))]
    for prefix in [prefix for prefix in prefixes if all(name.startswith(prefix) for name in strange)]:
        if 2 * sum(name.removeprefix(prefix) in known for name in strange) > len(strange):
            return prefix
    return None


def some(names: list[str]) -> str:
    """The first few of some names."""
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
