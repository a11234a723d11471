#!/usr/bin/env bash
# tools/test_pythons.sh python3.12 python3.13: the tests that need no torch, on each of these that is installed.
# torch and what stands on it are left out: their builds for other versions may be gigabytes.
set -euo pipefail
cd "$(dirname "$0")/.."

executable() { # the program of a version, on the path or among those of pyenv
  local ask='import sys; print(sys.executable)'
  "$1" -c "$ask" 2>/dev/null && return
  command -v pyenv >/dev/null && PYENV_VERSION=$(pyenv whence "$1" 2>/dev/null | tail -n 1) "$1" -c "$ask" 2>/dev/null
}

for name in "$@"; do
  python=$(executable "$name") || { echo "$name is not installed: its tests are left out"; continue; }
  folder=build/$name pip="build/$name/bin/python -m pip install --disable-pip-version-check -q --no-compile"
  if [ ! "$folder/installed" -nt requirements.lock ]; then
    rm -rf "$folder" && "$python" -m venv "$folder"
    sed -n '/^pip==/,/[^\\]$/p' requirements.lock >"$folder/pip.txt" && $pip -r "$folder/pip.txt"
    "$folder/bin/python" tools/requirements.py dev | grep -vE '^(torch|accelerate|peft)\b' >"$folder/requirements.txt"
    $pip --require-hashes -c requirements.lock -r "$folder/requirements.txt"
    $pip --no-deps --no-build-isolation -e .
    touch "$folder/installed"
  fi
  echo "$("$folder/bin/python" --version):"
  OMP_NUM_THREADS=1 "$folder/bin/python" -m pytest -q -n 2 -p no:cacheprovider \
    tests/core tests/text tests/data tests/io/test_files.py
done
