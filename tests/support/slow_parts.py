"""A run of tests in pieces of about equal time: ``pytest --part 2/4``, by which ``make test-slow PART=2/4`` runs one.

All tests of a file are in one piece, for they share what their fixtures make. Which one follows from the files that
were chosen and from nothing else, so every test is in exactly one of them.
"""

from collections import Counter
from collections.abc import Iterable

# About the seconds that the slow tests of a file take on a free core, where that is much more than one for each of them
SECONDS: dict[str, float] = {
    "test_demo_model.py": 490, "evaluate/test_demo_edits.py": 400, "trial/test_kills.py": 280,
    "edit/test_methods.py": 240, "advise/test_scripted_worlds.py": 200,
    "evaluate/test_crossings.py": 230, "test_recipes.py": 200, "test_docs_run.py": 200,
    "trial/test_gates.py": 140, "test_control_model.py": 120, "trial/test_altered.py": 110,
    "wikidata/test_ray.py": 100, "test_wheel.py": 90, "cli/test_timestress_on_a_store.py": 90,
    "probe/ask/test_simulated.py": 90, "trial/test_budgets.py": 90, "report/test_figures.py": 70,
    "trial/test_identity.py": 70, "probe/check/test_history.py": 70, "probe/check/test_check.py": 65,
    "probe/ask/test_decoys.py": 65, "test_small_models.py": 60, "probe/test_damage.py": 60,
    "wikidata/updates/test_against_naive.py": 55, "probe/test_reuse.py": 55, "lm/test_llamacpp.py": 55,
    "test_gpu_benchmark.py": 55, "probe/test_replicas.py": 50, "trial/test_two_processes.py": 50,
    "trial/test_architectures.py": 50, "probe/horizon/test_benchmark.py": 50, "evaluate/test_atoke.py": 50,
    "lm/test_real_models.py": 45, "trial/test_ctrl_c.py": 45, "trial/test_damage.py": 30, "edit/test_alphaedit.py": 30,
    "probe/horizon/test_fit.py": 30, "wikidata/test_handing.py": 25, "wikidata/test_ingest.py": 20,
}  # fmt: skip


def parsed(text: str) -> tuple[int, int]:
    """``2/4`` as numbers. Raises `ValueError` for what names no piece."""
    number, slash, pieces = text.partition("/")
    if not (slash and number.isascii() and pieces.isascii() and number.isdigit() and pieces.isdigit()):
        raise ValueError(f"--part {text}: write which piece of how many, such as 2/4")
    if not 1 <= int(number) <= int(pieces):
        raise ValueError(f"--part {text}: the pieces of {pieces} are 1/{pieces} to {pieces}/{pieces}")
    return int(number), int(pieces)


def piece(files: Iterable[str], number: int, pieces: int) -> set[str]:
    """The files of one piece. files: of every test that is to run, below the folder of tests.

    The longest first, each into the piece that is shortest so far.
    """
    tests = Counter(files)
    seconds = {file: SECONDS.get(file, float(count)) for file, count in tests.items()}
    filled = [0.0] * pieces
    found: list[set[str]] = [set() for _ in range(pieces)]
    for file in sorted(seconds, key=lambda file: (-seconds[file], file)):
        shortest = filled.index(min(filled))
        filled[shortest] += seconds[file]
        found[shortest].add(file)
    return found[number - 1]
