#!/usr/bin/env bash
# Every table and figure of the TimeStress paper (Factual Knowledge in Language Models: Robustness and Anomalies under
# Simple Temporal Context Variations), from nothing: its 18 models as raw text, the nine instruct models in chat format
# too, and the two explanatory prefixes for the five most robust models of each format (section 4.2, appendix C.3).
#
#     pip install -c constraints.txt '.[hub,report]'
#     recipes/timestress.sh
#
# Run it again to go on after an interruption. Settings, from the environment:
#     OUT=runs/timestress           where runs, tables and the report go: about 50 runs
#     DATASET=Orange/TimeStress     or a file in the published columns
#     MODELS="..."                  hub names or folders instead of the 18
#     PROMPTS=                      a folder that tools/paper_prompts.py made of the paper's text: its own prompts 1 and 2
#     PREFIXES="hierarchy transfer" without it, ours, which say the same in other words; or files of your own
#     TOP=5                         how many of the most robust models get the prefixes, and are pooled in the tables
#     DTYPE=bfloat16                see models.sh for it and for OpenELM's tokenizer
set -euo pipefail

OUT=${OUT:-runs/timestress}
DATASET=${DATASET:-Orange/TimeStress}
PROMPTS=${PROMPTS:-}
if [ -n "$PROMPTS" ]; then
    PREFIXES="$PROMPTS/hierarchy.txt $PROMPTS/transfer.txt"
fi
PREFIXES=${PREFIXES:-hierarchy transfer}
TOP=${TOP:-5}
source "$(dirname "${BASH_SOURCE[0]}")/models.sh"

# most_robust FORMAT: hub names of the TOP models with the highest global R, then W, without a prefix.
most_robust() {
    local label model found
    awk -F, -v format="$1" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $column["format"] == format && $column["prefix"] == "none" && $column["granularity"] == "global" {
            print $column["robustness"], $column["win_rate"], $column["model"]
        }' "$OUT/without-prefix/summary.csv" | LC_ALL=C sort -k1,1gr -k2,2gr -k3,3 | awk -v top="$TOP" 'NR <= top' |
        while read -r _ _ label; do
            found=
            for model in $MODELS; do
                if [ "${model##*/}" = "$label" ]; then found=$model; fi
            done
            echo "${found:?no model is called $label}"
        done
}

# 1. Raw text, all models (figures 2 to 4, 6, 8, 11 to 16 and 18).
for model in $MODELS; do probe "$model" raw none; done

# 2. The chat format, instruct models (figure 5, and the chat halves of figures 4, 6 and 7 to 10).
for model in $(instruct_models); do probe "$model" chat none; done

# 3. Explanatory prefixes, for the models of figure 6 (figure 10).
anachron metrics "${RUNS[@]}" --out "$OUT/without-prefix" --top "$TOP"
for format in raw chat; do
    chosen=$(most_robust "$format")
    for prefix in $PREFIXES; do
        for model in $chosen; do probe "$model" "$format" "$prefix"; done
    done
done

# 4. Tables; then tables, figures and the page.
anachron metrics "${RUNS[@]}" --out "$OUT/tables" --top "$TOP"
anachron report "${RUNS[@]}" --out "$OUT/report" --top "$TOP"
