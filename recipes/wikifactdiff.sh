#!/usr/bin/env bash
# Table 4 and figure 2 of the WikiFactDiff paper (section 5): the facts that were replaced between two dates, each updated
# in GPT-J by six methods, one update at a time and each from the clean model; how well the update took, and what it did
# to other facts and to free text.
#
#     pip install -c constraints.txt '.[hub,edit,report]'
#     UPDATES=updates.replacements.parquet TRAIN_UPDATES=updates.parquet recipes/wikifactdiff.sh
#
# The two files are what `anachron build updates` writes (docs/updates.md): the replacements, of those of the population
# one in fourteen, are judged; all updates are there to train MEND on. Without them the published data set is taken from
# the hub. It has no file of the subset of the paper, so all its replacements are judged (docs/recipes.md shows how to
# draw the subset), and no popularity of neighbours, so that figure 2 is left out: that needs a build of your own, with
# page views. The paper's prompt for the templates: `anachron build cloze --instructions` (docs/papers.md).
#
# Run it again to go on after an interruption. Settings, from the environment:
#     OUT=runs/wikifactdiff      where MEND's network, the run, its tables and the figure go
#     MODEL=EleutherAI/gpt-j-6b  hub name or folder; settings of other models are scaled, see docs/edit-methods.md
#     UPDATES=Orange/WikiFactDiff  what is judged: a file or a hub name
#     TRAIN_UPDATES=$UPDATES     what MEND learns from: a file or a hub name. Of these the updates of TRAIN_SCENARIO, and
#     TRAIN_SCENARIO=AddRelation none about a subject that is judged. (The published network learned from texts that the
#                                model wrote.)
#     METHODS=FT,FT+L,...        those of the table
#     SET="..."                  settings as METHOD.NAME=VALUE. By default three that the published code has and this
#                                package has not; SET= takes its own
#     CORPUS=wikimedia/wikipedia:20231101.en  text for the covariance of ROME and MEMIT, read from its start. The
#                                published one was taken over 100,000 articles of an English Wikipedia of 2020 or 2022, by
#                                version of the code, which the hub has no more. Salesforce/wikitext:wikitext-103-raw-v1
#                                is smaller to download
#     TOKENS=1000000             how many tokens of it
#     DTYPE=bfloat16             that of the published code; the paper says float16
#     LIMIT=                     judge only so many updates, for a first look
#     MEND_STEPS=10000, MEND_RATE=1e-6, FLUENCY_TOKENS=100
set -euo pipefail

OUT=${OUT:-runs/wikifactdiff}
MODEL=${MODEL:-EleutherAI/gpt-j-6b}
UPDATES=${UPDATES:-Orange/WikiFactDiff}
TRAIN_UPDATES=${TRAIN_UPDATES:-$UPDATES}
TRAIN_SCENARIO=${TRAIN_SCENARIO:-AddRelation}
METHODS=${METHODS:-FT,FT+L,MEND,ROME,MEMIT,PROMPT}
SET=${SET-FT.last_position_loss=true FT+L.last_position_loss=true ROME.averaged_key=false}
CORPUS=${CORPUS:-wikimedia/wikipedia:20231101.en}
TOKENS=${TOKENS:-1000000}
DTYPE=${DTYPE:-bfloat16}
LIMIT=${LIMIT:-}
MEND_STEPS=${MEND_STEPS:-10000}
MEND_RATE=${MEND_RATE:-1e-6}
FLUENCY_TOKENS=${FLUENCY_TOKENS:-100}

options=()
if [ -n "$LIMIT" ]; then options+=(--limit "$LIMIT"); fi
for setting in $SET; do # of the methods that are judged
    case ",$METHODS," in *",${setting%%.*},"*) options+=(--set "$setting") ;; esac
done

# 1. The network of MEND. There already, it is not trained again.
case ",$METHODS," in
    *,MEND,*)
        anachron train-mend "$MODEL" --updates "$TRAIN_UPDATES" --scenario "$TRAIN_SCENARIO" --without "$UPDATES" \
            --steps "$MEND_STEPS" --rate "$MEND_RATE" --dtype "$DTYPE" --out "$OUT/mend.safetensors"
        options+=(--mend "$OUT/mend.safetensors")
        ;;
esac

# 2. Edit and judge: the covariances in one pass over the text, kept for later runs; then every update by every method.
#    The table is $OUT/run/report/markdown/edits.md (also .csv, LaTeX), the figure $OUT/run/report/bleedover.svg and .pdf.
anachron evaluate "$MODEL" --updates "$UPDATES" --methods "$METHODS" --corpus "$CORPUS" --corpus-tokens "$TOKENS" \
    --fluency-tokens "$FLUENCY_TOKENS" --dtype "$DTYPE" --out "$OUT/run" "${options[@]}"
