#!/usr/bin/env bash
# Every table and figure of the first paper (On the Robustness of Temporal Factual Knowledge in Language Models): its 18
# models as raw text and, tuned on instructions, in chat format, each without a prefix and with two solved examples before
# the question (section 4.6).
#
#     pip install -c constraints.txt '.[hub,report]'
#     recipes/robustness-2025.sh facts.parquet
#
# The data set is the argument, for it was not published: the 100 most popular facts of each of six Wikidata relations
# (employer, member of, position held, member of sports team, head of state, head of government) that held in one period
# within 1950 to 2020, of more than two years (section 4.2). It has to be selected from a Wikidata dump, with the preset
# robustness-2025, whose dates are those of `anachron contexts --sampling robustness-2025`. Any file in the published
# TimeStress columns, hub name or bundled data set serves as well: `recipes/robustness-2025.sh mini` runs at once, and
# gives the same tables for other facts.
#
# Run it again to go on after an interruption. Settings, from the environment:
#     OUT=runs/robustness-2025  where runs, tables and the report go: 54 runs
#     MODELS="..."              hub names or folders instead of the 18
#     PROMPTS=                  a folder that tools/paper_prompts.py made of the paper's text: its own two examples
#     FEW_SHOT=few-shot         without it, ours, of the same form with other examples; or a file of your own
#     DTYPE=bfloat16            see models.sh for it and for OpenELM's tokenizer
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 DATASET (a file in the published columns, a hub name or mini; see the top of this script)" >&2
    exit 2
fi
DATASET=$1
OUT=${OUT:-runs/robustness-2025}
PROMPTS=${PROMPTS:-}
if [ -n "$PROMPTS" ]; then
    FEW_SHOT="$PROMPTS/few-shot.txt"
fi
FEW_SHOT=${FEW_SHOT:-few-shot}
source "$(dirname "${BASH_SOURCE[0]}")/models.sh"

# Without a prefix (figures 2 to 5 and 7 to 9), then with examples (figure 6).
for prefix in none "$FEW_SHOT"; do
    for model in $MODELS; do probe "$model" raw "$prefix"; done
    for model in $(instruct_models); do probe "$model" chat "$prefix"; done
done

anachron metrics "${RUNS[@]}" --out "$OUT/tables"
anachron report "${RUNS[@]}" --out "$OUT/report"
