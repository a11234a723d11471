# What both recipes share: the 18 models and how one of them is probed. Sourced, not run.
#
# Models: TimeStress, section 4, and TimeStress v1, section 4.1, name the same nine, each pretrained and tuned on
# instructions. They give no hub names; these are those of the published code (github.com/Orange-OpenSource/TimeStress,
# experiments/temporality-context-paper/models_metadata.py). Several are gated: accept their licence on the hub and log in.
PAPER_MODELS="
meta-llama/Llama-3.1-8B meta-llama/Llama-3.1-8B-Instruct
meta-llama/Llama-3.1-70B meta-llama/Llama-3.1-70B-Instruct
mistralai/Mistral-Nemo-Base-2407 mistralai/Mistral-Nemo-Instruct-2407
mistralai/Mistral-7B-v0.3 mistralai/Mistral-7B-Instruct-v0.3
google/gemma-2-2b google/gemma-2-2b-it
google/gemma-2-9b google/gemma-2-9b-it
google/gemma-2-27b google/gemma-2-27b-it
apple/OpenELM-450M apple/OpenELM-450M-Instruct
apple/OpenELM-3B apple/OpenELM-3B-Instruct
"

# Settings, each to be overridden from outside (MODELS="google/gemma-2-2b google/gemma-2-2b-it" recipes/timestress.sh):
MODELS=${MODELS:-$PAPER_MODELS}
DTYPE=${DTYPE:-bfloat16} # that of the published code
OPENELM_TOKENIZER=${OPENELM_TOKENIZER:-meta-llama/Llama-2-7b-hf}

RECIPES=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RUNS=() # the run folders so far, in order

# probe MODEL FORMAT PREFIX: one run, into $OUT/FORMAT-PREFIX/MODEL. Done already, it is not repeated; killed, it goes on.
probe() {
    local model=$1 format=$2 prefix=$3
    local folder=$OUT/$format-$(basename "$prefix")/${model##*/}
    local options=(--label "${model##*/}" --dtype "$DTYPE")
    case $model in
        */OpenELM-*) # comes without a tokenizer and with code of its own, its instruct versions without a chat template
            options+=(--tokenizer "$OPENELM_TOKENIZER" --trust-remote-code)
            if [ "$format" = chat ]; then options+=(--chat-template "$RECIPES/openelm_chat.jinja"); fi
            ;;
        *-70B*) options+=(--device-map auto) ;; # larger than one GPU
    esac
    echo "== ${model##*/}, $format, prefix $prefix" >&2
    anachron probe "$model" --dataset "$DATASET" --out "$folder" --format "$format" --prefix "$prefix" "${options[@]}"
    RUNS+=("$folder")
}

# The models tuned on instructions, which alone have a chat format.
instruct_models() {
    local model
    for model in $MODELS; do
        case $model in *-it | *-Instruct*) echo "$model" ;; esac
    done
}
