#!/usr/bin/env bash
# Which quantisation forgets? One model's weights as F16, Q8_0, Q4_1 and Q4_0, computed by llama.cpp, asked about the same
# facts: verdicts of each, and W and R against F16 with paired intervals.
#
#     pip install -c constraints.txt '.[llamacpp]'
#     recipes/quantisations.sh smollm2.gguf
#
# The other kinds are made of the file's own weights (tools/requantise.py), so a file of 16 bits says most: what a file of
# 4 bits has lost is lost in its F16 too. The answer is in $OUT/tables/comparison.csv, and in check.json of each run.
#
# Run it again to go on after an interruption. Settings, from the environment:
#     OUT=runs/quantisations    where files, runs and tables go
#     KINDS="F16 Q8_0 ..."      the first is what the others are compared with
#     FACTS=facts.csv           by default the ten facts that come with the package
#     AS_OF=2024-06-30          the day up to which they are known
#     LIMIT=100                 only so many facts, a fixed sample
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 MODEL.gguf (see the top of this script)" >&2
    exit 2
fi
HERE=$(dirname "${BASH_SOURCE[0]}")
OUT=${OUT:-runs/quantisations}
KINDS=${KINDS:-F16 Q8_0 Q4_1 Q4_0}
FACTS=${FACTS:-$HERE/../src/anachron/data/mini/ten_facts.csv}
AS_OF=${AS_OF:-2024-06-30}

mkdir -p "$OUT/files"
RUNS=()
for kind in $KINDS; do
    file=$OUT/files/$kind.gguf
    if [ ! -e "$file" ]; then python "$HERE/../tools/requantise.py" "$1" "$file" "$kind"; fi
    anachron check "$file" --backend llama.cpp --label "$kind" --facts "$FACTS" --as-of "$AS_OF" \
        ${LIMIT:+--limit "$LIMIT"} --out "$OUT/$kind" --no-page
    RUNS+=("$OUT/$kind")
done

anachron metrics "${RUNS[@]}" --out "$OUT/tables" --baseline "${KINDS%% *}"
