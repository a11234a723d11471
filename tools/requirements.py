"""The requirements of this project with some extras, one a line: what ``pip install '.[EXTRA,...]'`` would ask for.

    python tools/requirements.py edit report > requirements.txt

pip checks hashes of packages, but not of a folder such as this one; so what it depends on is installed first, by this
list, and then the project itself without dependencies. What builds it is in the list too.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def requirements(extras: Iterable[str]) -> list[str]:
    """What the project and some of its extras require, each once. Raises `KeyError` for an unknown extra."""
    content = tomllib.loads(PROJECT.read_text("utf-8"))
    project = content["project"]
    found = [*content["build-system"]["requires"], *project["dependencies"]]
    waiting, seen = list(extras), set()
    while waiting:
        if (extra := waiting.pop()) in seen:
            continue
        seen.add(extra)
        for line in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[([\w,-]+)\]", line)
            if own:
                waiting += own[1].split(",")
            else:
                found.append(line)
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
