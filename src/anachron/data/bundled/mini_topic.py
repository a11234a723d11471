"""The bundled example of a topic: offices of heads of state and of government, as two small Wikidata dumps.

``tools/make_topic.py`` says where they come from, and in what the entities differ from Wikidata's own. Both hold the
same items; the statements of the first are those of the second that had started by its day, without later ends.
"""

from importlib.resources import files

OLD_DAY, NEW_DAY = "2019-12-31", "2022-07-22"
OLD, NEW = f"offices-{OLD_DAY}-from-dates.json.gz", f"offices-{NEW_DAY}.json.gz"
DUMPS = {OLD: OLD_DAY, NEW: NEW_DAY}  # names of the files and their days, from the earlier on


def topic_dump(name: str) -> bytes:
    """One of `DUMPS`, as it is in the package."""
    return files("anachron.data").joinpath("mini", name).read_bytes()
