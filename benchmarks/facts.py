"""What reading a large file of facts takes: seconds of the processor and memory, for shapes that could be slow.

Run: python benchmarks/facts.py [--rows 100000]. Each shape is a file of its own, read in a process of its own: facts of
many subjects; one subject and relation whose objects all hold at once, or follow each other; one fact in many periods;
and every name in two spellings. Prints JSON with processor seconds, peak memory in MiB, facts and lines of notices.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from anachron.data.own.files import read_given_facts

HEADER = "subject,relation,object,start,end,aliases\n"
SHAPES = {
    "many subjects": lambda n: f"Subject {n},capital,Object {n},{1000 + n % 1000},,",
    "all at once": lambda n: f"Germany,member,Member {n},{1000 + n % 1000},,",
    "one after another": lambda n: f"Germany,head,Head {n},{day(n)},{day(n)},",
    "many periods": lambda n: f"Germany,head,Head,{day(2 * n)},{day(2 * n)},",
    "two spellings": lambda n: (
        f"{'Subject' if n % 2 else 'SUBJECT'} {n // 2},capital,Object {n},1900,,\"['a{n}', 'b']\""
    ),
}


def day(number: int) -> str:
    return f"{1000 + number // 336:04d}-{1 + number // 28 % 12:02d}-{1 + number % 28:02d}"


def measured(path: str) -> dict[str, object]:
    started = time.process_time()
    read = read_given_facts(path)
    return {
        "cpu_seconds": round(time.process_time() - started, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "facts": len(read.facts), "notices": len(read.notes),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.file:
        print(json.dumps(measured(options.file)))
        return
    found = {}
    with TemporaryDirectory() as folder:
        for name, row in SHAPES.items():
            path = Path(folder) / "facts.csv"
            path.write_text(HEADER + "".join(f"{row(n)}\n" for n in range(options.rows)))
            command = [sys.executable, __file__, "--file", str(path)]
            found[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(json.dumps({"rows": options.rows, "shapes": found}, indent=2))


if __name__ == "__main__":
    main()
