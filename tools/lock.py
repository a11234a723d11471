"""Write requirements.lock: every package that the extras all, dev and docs install, with the hashes of all its files.

And tests/store_server.lock: the same of the extra store-test, which has an environment of its own.

    pip install uv && python tools/lock.py

Versions are those of constraints.txt; change one there and run this again. What the new versions need and
constraints.txt lacks is added to it. The lock serves Linux, macOS and Windows, and every Python from 3.11 on.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from requirements import requirements

ROOT = Path(__file__).parents[1]
LOCK, CONSTRAINTS = ROOT / "requirements.lock", ROOT / "constraints.txt"
STORE_LOCK = ROOT / "tests" / "store_server.lock"
HEAD = "# Made by tools/lock.py from constraints.txt; do not edit.\n"
STORE_HEAD = "# Made by tools/lock.py from the extra store-test; do not edit.\n"
# Packages that torch demands by exact versions on some systems; constraints.txt leaves them to it.
OF_TORCH = re.compile(r"(nvidia|cuda|triton)\b")


def locked(asked: list[str], constraints: Path | None = None) -> str:
    """The lock as uv writes it: universal, with hashes."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.in"
        wanted.write_text("\n".join(asked) + "\n", "utf-8")
        command = [
            "uv", "pip", "compile", str(wanted), "--universal", "--python-version", "3.11.5", "--generate-hashes",
            "--no-header", "--no-annotate", "--quiet", *(("--constraint", str(constraints)) if constraints else ()),
        ]  # fmt: skip
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def pins(text: str) -> dict[str, str]:
    """Versions by name in the usual form, of a lock or of constraints."""
    found = re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def store_test() -> list[str]:
    """What the extra store-test alone asks for."""
    return [line for line in requirements(["store-test"]) if line not in requirements([])]


def main() -> None:
    lock = locked([*requirements(["all", "dev", "docs"]), "pip"], CONSTRAINTS)
    LOCK.write_text(HEAD + lock, "utf-8")
    STORE_LOCK.write_text(STORE_HEAD + locked(store_test()), "utf-8")
    lines = CONSTRAINTS.read_text("utf-8").splitlines()
    known = pins("\n".join(lines))
    lines += [f"{name}=={v}" for name, v in pins(lock).items() if name not in known and not OF_TORCH.match(name)]
    comments = [line for line in lines if line.startswith("#")]
    CONSTRAINTS.write_text("\n".join([*comments, *sorted(set(lines) - set(comments), key=str.lower)]) + "\n", "utf-8")
    print(f"{len(pins(lock))} packages locked in {LOCK.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
