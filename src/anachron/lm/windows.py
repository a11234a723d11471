"""How far a model's layers see back, and which configurations rule out prefix-tree attention, or some padded batches.

In a tree batch (`anachron.lm.prefix_tree`) a token's index in the sequence is not its depth in a text, and the ancestor
mask replaces the model's own: sliding windows are put into it, by depth, other windows cannot be.
"""

from inspect import signature
from typing import Any

# how many tokens see one another, by the names of transformers' configurations
SLIDING = "sliding_window"
WINDOWS = (SLIDING, "sliding_window_size", "attention_chunk_size")
MASKED = {"full_attention", "sliding_attention", "chunked_attention"}  # layers in which a mask and positions say it all
LOCAL = {"local", "lsh"}  # layers whose windows are counted by index in the sequence


def sliding_window(model: Any) -> int | None:
    """How many tokens its layers of sliding attention see, the token itself included; None where none is known to.

    A number in a configuration does not say that layers use it: files may have any key. Layers have kinds that tell,
    or else the class of the configuration must know the number, and no other key switch it off.
    """
    config = model.config.get_text_config()
    window = getattr(config, SLIDING, None)
    if not isinstance(window, int) or window <= 0:
        return None
    if has_kinds_of_layers(model):
        return window if "sliding_attention" in config.layer_types else None
    return window if hasattr(type(config), SLIDING) and getattr(config, "use_sliding_window", True) else None


def _may_use(config: Any, name: str) -> bool:
    """Whether layers may use a number of a configuration; files may have any key. Prefix trees are tried all the same.

    transformers' own classes name those that they know, and may switch the window off; of code that comes with a
    checkpoint that cannot be told.
    """
    if not type(config).__module__.startswith("transformers."):
        return True
    known = hasattr(type(config), name) or name in signature(type(config).__init__).parameters
    return known and not (name == SLIDING and getattr(config, "use_sliding_window", None) is False)


def has_kinds_of_layers(model: Any) -> bool:
    """Whether its layers have kinds, each of which takes a mask of its own, by the names in ``layer_types``."""
    return bool(getattr(model.config.get_text_config(), "layer_types", None))


def local_places(model: Any) -> int | None:
    """How many places of the sequence its local layers see, as GPT-Neo has them; None without such layers."""
    config = model.config.get_text_config()
    layers = set(getattr(config, "attention_layers", None) or getattr(config, "attn_layers", None) or ())
    return (getattr(config, "window_size", None) or 0) if layers & LOCAL else None


def nearest_end(model: Any) -> int | None:
    """How many places of the sequence all of its layers see at least: what ends nearest of sliding windows, local
    layers and chunks; None where all layers see everything."""
    config = model.config.get_text_config()
    chunks = "chunked_attention" in (getattr(config, "layer_types", None) or ())
    chunk = getattr(config, "attention_chunk_size", None) if chunks else None
    return min((n for n in (sliding_window(model), local_places(model), chunk) if n), default=None)


def why_no_prefix_tree(model: Any, longest: int, reach: int) -> str | None:
    """Why texts of up to so many tokens cannot be computed by prefix-tree attention; None where nothing is against it.

    reach: the most indices in the sequence from a text's first token to its last. A window that is not in the mask is
    no reason while a whole text fits into it: what it would hide is then hidden by the ancestor mask.
    """
    config, kind = model.config.get_text_config(), type(model).__name__
    places = local_places(model)
    if places is not None and reach > places:
        return f"{kind} has local attention over {places} places of the sequence, which an ancestor mask cannot move"
    if _has_alibi(config):
        return f"{kind} takes distances from places in the sequence (ALiBi), not from positions"
    others = set(getattr(config, "layer_types", None) or ()) - MASKED
    if others:
        return f"{kind} has layers of another kind than masked attention ({', '.join(sorted(others))})"
    in_mask = {SLIDING} if has_kinds_of_layers(model) or sliding_window(model) is not None else set()
    for name in WINDOWS:
        window = getattr(config, name, None) if name not in in_mask and _may_use(config, name) else None
        if isinstance(window, int) and 0 < window < longest:
            return f"{kind} sees {window} tokens back ({name}), some texts are longer, and the mask would replace that"
    change = changing_length(model)
    if change is not None and longest > change:
        return f"{kind} has other positions in texts of more than {change} tokens (longrope)"
    return None


def why_no_single_mask(model: Any, longest: int, reach: int) -> str | None:
    """The same where one mask without any window serves all layers."""
    window = sliding_window(model)
    if window is not None and window < longest:
        return f"{type(model).__name__} sees {window} tokens back ({SLIDING}), and some texts are longer"
    return why_no_prefix_tree(model, longest, reach)


def _has_alibi(config: Any) -> bool:
    """Bloom's configuration has no word for it; MPT keeps it with its other settings of attention."""
    settings = getattr(config, "attn_config", None)
    alibi = settings.get("alibi") if isinstance(settings, dict) else getattr(settings, "alibi", None)
    named = getattr(config, "position_embedding_type", None) == "alibi"
    return bool(alibi or named or getattr(config, "alibi", False)) or config.model_type == "bloom"


def changing_length(model: Any) -> int | None:
    """The number of tokens above which a model computes a whole batch with other positions, where there is one.

    Of the kinds of rotary positions only ``longrope`` does, within the length that the model reads.
    """
    config = model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [rope, *(kind for kind in rope.values() if isinstance(kind, dict))]  # some have one for each kind of layer
    lengths = [
        kind.get("original_max_position_embeddings") or getattr(config, "original_max_position_embeddings", None)
        for kind in kinds
        if kind.get("rope_type") == "longrope"
    ]
    return min((length for length in lengths if length), default=None)
