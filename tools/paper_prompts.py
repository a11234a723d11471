"""The papers' own prompts and prefixes, taken from their texts into files, for ``--instructions`` and ``--prefix``.

A prefix is part of a measure, so who repeats a paper needs its words; ours say the same in other words, and theirs are
not ours to hand on. Give this the papers as plain text (``pdftotext PAPER.pdf`` makes one)::

    python tools/paper_prompts.py timestress.txt timestress-v1.txt wikifactdiff.txt --out prompts

writes those of these that it finds: ``hierarchy.txt`` and ``transfer.txt`` (TimeStress, C.3) and ``few-shot.txt``
(TimeStress v1, 4.6), which are prefixes; ``verbalize.txt`` (TimeStress, A.2) and ``cloze.txt`` (WikiFactDiff, C), which
are instructions: the system prompts, for the main prompts only list the parts of a fact, as ours do.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

# Where each begins and ends, by the words of the papers around it; a line break may stand wherever a space does.
PLACES = {
    "hierarchy": (r"Prompt 1 ?: ?Hierarchical natures? of dates", r"Prompt 2 ?:"),
    "transfer": (r"Prompt 2 ?: ?Knowledge transfer between granularities", r"The first explains the hierarchical"),
    "few-shot": (r"The few-shot prompt template we use is ?:", r"\[QUESTION\]"),
    "verbalize": (r"Here is the \*?system\*? prompt used ?:", r"And here is the main prompt ?:"),
    "cloze": (
        r"utilis\u00e9 pour la g\u00e9n\u00e9ration de phrases \u00e0 trou ?:",
        r"Et voici le pr\u00e9fixe principal ?:",
    ),
}
ONE_LINE = ("hierarchy", "transfer")  # whose line breaks are those of the page


def prompts_in(text: str) -> dict[str, str]:
    """Name -> prompt, of those that the text of a paper has. A prefix ends in a line break."""
    found = {}
    for name, (before, behind) in PLACES.items():
        pattern = rf"{_spaced(before)}(.+?){_spaced(behind)}"
        match = re.search(pattern, text, re.DOTALL)
        if match is None:
            continue
        inside = match[1].strip()
        if name in ONE_LINE:
            inside = " ".join(inside.split())
        found[name] = re.sub(r"\n{2,}", "\n", inside) + "\n"
    return found


def _spaced(pattern: str) -> str:
    """The pattern with any white space in the place of a space."""
    return pattern.replace(" ?", r"\s*").replace(" ", r"\s+")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Take the papers' own prompts and prefixes from their texts.")
    parser.add_argument("papers", nargs="+", type=Path, metavar="PAPER.txt")
    parser.add_argument("--out", type=Path, required=True, help="folder for the prompts")
    options = parser.parse_args(words)
    found: dict[str, str] = {}
    for paper in options.papers:
        found |= prompts_in(paper.read_text("utf-8"))
    if not found:
        parser.error(f"none of {', '.join(map(str, options.papers))} has a prompt where the papers print theirs")
    options.out.mkdir(parents=True, exist_ok=True)
    for name, prompt in found.items():
        (options.out / f"{name}.txt").write_text(prompt, "utf-8")
        print(f"{options.out / name}.txt: {len(prompt.split())} words")
    for name in PLACES.keys() - found.keys():
        print(f"{name}: not found; give the text of its paper too")


if __name__ == "__main__":
    main()
