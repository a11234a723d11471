"""Text that a model writes itself, to take its covariance over where no other is at hand.

Each text is sampled token by token from the model's whole distribution, as it is: what a model writes is what it reads
while it writes, so its inputs are those of ordinary use, in the model's own languages and kinds of text.
"""

from collections.abc import Iterator, Sequence
from itertools import count

import torch

from anachron.edit.corpus import AUTO
from anachron.io.files import Json
from anachron.lm.generation import continued, start_of_text
from anachron.lm.model import LanguageModel
from anachron.lm.sites import features

TEXTS, LENGTH = 32, 256  # of a piece: so many texts, sampled together, of so many tokens
SEEDS = 1_000_003  # pieces that a seed has to itself; on a CPU torch takes 32 bits of a seed alone
TIMES = 10  # tokens for each input of a module, see `enough_tokens`


class OwnText:
    """A corpus (`anachron.edit.corpus.Corpus`) without end, the same for the same model and seed.

    identity: has no fingerprint of the model, under which a covariance is kept anyway.
    """

    name = AUTO

    def __init__(self, lm: LanguageModel, seed: int = 0) -> None:
        self.lm, self.seed = lm, seed
        self.identity: Json = {"sampled": "by the model itself", "seed": seed, "texts": TEXTS, "tokens_each": LENGTH}

    def pieces(self, start: int = 0) -> Iterator[tuple[int, str]]:
        """Each of `TEXTS` texts with empty lines between. A piece has a seed of its own, so reading can start at any;
        the global random state is left as it was."""
        length = min(LENGTH, (self.lm.context_length or LENGTH) - 1)
        opening = torch.full((TEXTS, 1), start_of_text(self.lm.tokenizer), device=self.lm.device)
        devices = [self.lm.device] if self.lm.device.type == "cuda" else []
        for number in count(start):
            with torch.random.fork_rng(devices=devices):
                torch.manual_seed(self.seed * SEEDS + number)
                rows = continued(self.lm.model, opening, length, do_sample=True, top_k=0)[:, 1:]
            yield number, "\n\n".join(self.lm.tokenizer.batch_decode(rows, skip_special_tokens=True)) + "\n\n"


def enough_tokens(lm: LanguageModel, modules: Sequence[str], most: int) -> int:
    """Ten for each input of the widest module, at most so many: sampling is far slower than reading."""
    return min(most, TIMES * max(features(lm.model.get_submodule(name), name)[1] for name in modules))
