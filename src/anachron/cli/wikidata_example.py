"""``wikidata example``."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from anachron.cli.options import JsonFlag
from anachron.cli.output import print_json, say
from anachron.cli.outputs import FOLDER

# Both hold the same items; ``tools/make_topic.py`` says where they come from, and in what they differ from Wikidata's.
OLD_DAY, NEW_DAY = "2019-12-31", "2022-07-22"
OLD, NEW = f"offices-{OLD_DAY}-from-dates.json.gz", f"offices-{NEW_DAY}.json.gz"
DRAWN = "drawn from dates of a later state of Wikidata, which did not hold this on that day"


def example(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the dumps and their snapshots."), FOLDER],
    json_: JsonFlag = False,
) -> None:
    """Write two small dumps that come with the package, and their snapshots: who headed 36 states and governments since
    2000, from Wikidata. It needs no network. A folder of an earlier call is completed.

    Ids, dates and names of persons are real; labels of offices are made, and what queries for holders of offices did
    not give is missing. The later dump is of July 2022; the earlier one is drawn from its dates, and is not what
    Wikidata held on that day.

    Example: anachron wikidata example --out offices
    """
    from anachron.cli.wikidata import needing_extra
    from anachron.core.errors import ConfigError
    from anachron.io.files import write_bytes

    with needing_extra():
        from anachron.wikidata.reading.ingest import ingest
        from anachron.wikidata.reading.settings import IngestSettings

    made = []
    for name, day, more in ((OLD, OLD_DAY, {"source": DRAWN}), (NEW, NEW_DAY, {})):
        dump, content = out / name, files("anachron.data").joinpath("mini", name).read_bytes()
        if dump.exists() and not (dump.is_file() and dump.read_bytes() == content):
            raise ConfigError(f"{dump} is there already, and is not the bundled dump; choose another --out")
        write_bytes(dump, content)
        snapshot = out / name.removesuffix(".json.gz")
        manifest = ingest(dump, snapshot, IngestSettings(day, wiki="all"), more=more)
        made.append({"snapshot": str(snapshot), "dump": str(dump), "date": day, "counts": manifest["counts"]})
    if json_:
        print_json(made)
        return
    old, new = (one["snapshot"] for one in made)
    for one in made:
        say(f"{one['snapshot']}: {one['counts']['kept']:,} items with {one['counts']['statements']:,} statements")
    say(f"facts: anachron build facts {new} --no-popularity --out facts.parquet")
    say(f"updates: anachron build updates --old {old} --new {new} --no-popularity --out updates.parquet")
