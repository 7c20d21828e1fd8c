# Completion of plait for bash, made by `plait completion bash`.
_plait() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "--help --version run chat inspect tokenize template embed logits perplexity bench plan quantize conformance devices doctor" -- "$word"))
        return
    fi
    case $before in
    --split) COMPREPLY=($(compgen -W "none layer tensor" -- "$word")); return ;;
    --fit | --verify) COMPREPLY=($(compgen -W "on off" -- "$word")); return ;;
    esac
    case ${COMP_WORDS[1]} in
    run) options=" -p -f --ids --chat -n --temp --top-k --top-p --min-p --seed --ignore-eos --json -t --devices --split --ratio --pin --ctx --batch --kv --exact --fit --fit-margin --trace --verify --monitor --device-path --no-mmap --help" ;;
    chat) options=" --system -n --temp --top-k --top-p --min-p --seed --ignore-eos -t --devices --split --ratio --pin --ctx --batch --kv --exact --fit --fit-margin --trace --verify --monitor --device-path --no-mmap --help" ;;
    inspect) options=" --tensors --metadata --json --help" ;;
    tokenize) options=" --no-special --jsonl --decode --json --help" ;;
    template) options=" --conversation --now --help" ;;
    embed) options=" -p -f --ids --json -t --devices --split --ratio --pin --ctx --batch --kv --exact --fit --fit-margin --trace --verify --monitor --device-path --no-mmap --help" ;;
    logits) options=" --ids --out --step --decoder-ids -t --devices --split --ratio --pin --ctx --batch --kv --exact --fit --fit-margin --trace --verify --monitor --device-path --no-mmap --help" ;;
    perplexity) options=" -p -f --ids --windows --json -t --devices --split --ratio --pin --ctx --batch --kv --exact --fit --fit-margin --trace --verify --monitor --device-path --no-mmap --help" ;;
    bench) options=" -p -n -d -r --json -t --devices --split --ratio --pin --ctx --batch --kv --exact --fit --fit-margin --trace --verify --monitor --device-path --no-mmap --help" ;;
    plan) options=" --json --machine --html --compare -t --devices --split --ratio --pin --ctx --batch --kv --exact --fit --fit-margin --trace --verify --monitor --device-path --no-mmap --help" ;;
    quantize) options=" -t --help" ;;
    conformance) options=" --bench --deep --only --lost --monitor --json --device-path --help" ;;
    devices) options=" --devices --measure --device-path --json --help" ;;
    doctor) options=" --help" ;;
    esac
    case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}
complete -o filenames -F _plait plait
