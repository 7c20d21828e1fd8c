#compdef plait
# Completion of plait for zsh, made by `plait completion zsh`.
_plait() {
    local -a commands=(
        'run:Continue a prompt.'
        'chat:Have a conversation, through the model'\''s own template.'
        'inspect:Show what is in a model file.'
        'tokenize:Turn text on standard input into token ids, or ids into text.'
        'template:Print the prompt that a chat template renders.'
        'embed:Print the embedding of a text.'
        'logits:Write the logits of every position of a list of token ids.'
        'perplexity:Measure how well a model predicts a text.'
        'bench:Measure the speed of prompts and of generation.'
        'plan:Show what would run where, why, and what it costs.'
        'quantize:Copy a model with its matrices in another element type.'
        'conformance:Check that a device does what every device must do.'
        'devices:List the devices of this machine and the kinds of device that plait knows.'
        'doctor:Tell what this machine can do, and how to mend what is missing.'
    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    ((CURRENT--))
    case $command in
    run)
        _arguments \
            '-p[the text]:TEXT:_files' \
            '-f[read the text from a file (-\: stdin)]:FILE:_files' \
            '--ids[token ids instead of a text]:1,2,3:_files' \
            '--chat[put the text as a user'\''s message through the model'\''s template]' \
            '-n[most tokens to generate (default\: what the context leaves)]:N:_files' \
            '--temp[temperature; 0\: greedy (default)]:T:_files' \
            '--top-k[only the K best tokens (default 40; 0\: off)]:K:_files' \
            '--top-p[the best tokens that have probability P together (default 0.95)]:P:_files' \
            '--min-p[only tokens at least P times as probable as the best (default 0.05)]:P:_files' \
            '--seed[seed of the random numbers (default\: the clock)]:S:_files' \
            '--ignore-eos[go on behind the end of generation]' \
            '--json[prompt ids, ids and text as one JSON object]' \
            '-t[threads of cpu devices without threads= (default\: all processors)]:THREADS:_files' \
            '--devices[devices, kind\[\:key=value\]..., comma-separated (default cpu)]:LIST:_files' \
            '--split[none\: the first device, others for what it lacks; layer\: whole layers (default\: by cost)]:MODE:(none layer tensor)' \
            '--ratio[shares of the devices in weights and cache, for whole layers]:A,B,...:_files' \
            '*--pin[weights, caches, nodes and layers (blk.N) of a name on a device; may be repeated, the first match wins]:PATTERN=DEVICE:_files' \
            '--ctx[context in tokens (default\: the file'\''s, reduced to what fits)]:N:_files' \
            '--batch[most tokens of one step (default 512, reduced to what fits)]:N:_files' \
            '--kv[types of the cache\: keys, values (default f16; run, chat and plan may choose q8_0 to fit)]:TYPE\[,TYPE\]:_files' \
            '--exact[same bytes for any batching and number of devices]' \
            '--fit[choose what fits (default on)]:on|off:(on off)' \
            '--fit-margin[memory to leave free on every device, or on each (default\: 1/32 of what is free)]:SIZE\[,SIZE...\]:_files' \
            '--trace[write when each group of nodes ran, for chrome\://tracing]:OUT.json:_files' \
            '--verify[prove plans before they run (default on)]:on|off:(on off)' \
            '--monitor[check every access of devices while running]' \
            '*--device-path[load device kinds from a shared library; may be repeated]:LIB:_files' \
            '--no-mmap[read the file into memory instead of mapping it]' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    chat)
        _arguments \
            '--system[the system'\''s message]:TEXT:_files' \
            '-n[most tokens to generate (default\: what the context leaves)]:N:_files' \
            '--temp[temperature; 0\: greedy (default)]:T:_files' \
            '--top-k[only the K best tokens (default 40; 0\: off)]:K:_files' \
            '--top-p[the best tokens that have probability P together (default 0.95)]:P:_files' \
            '--min-p[only tokens at least P times as probable as the best (default 0.05)]:P:_files' \
            '--seed[seed of the random numbers (default\: the clock)]:S:_files' \
            '--ignore-eos[go on behind the end of generation]' \
            '-t[threads of cpu devices without threads= (default\: all processors)]:THREADS:_files' \
            '--devices[devices, kind\[\:key=value\]..., comma-separated (default cpu)]:LIST:_files' \
            '--split[none\: the first device, others for what it lacks; layer\: whole layers (default\: by cost)]:MODE:(none layer tensor)' \
            '--ratio[shares of the devices in weights and cache, for whole layers]:A,B,...:_files' \
            '*--pin[weights, caches, nodes and layers (blk.N) of a name on a device; may be repeated, the first match wins]:PATTERN=DEVICE:_files' \
            '--ctx[context in tokens (default\: the file'\''s, reduced to what fits)]:N:_files' \
            '--batch[most tokens of one step (default 512, reduced to what fits)]:N:_files' \
            '--kv[types of the cache\: keys, values (default f16; run, chat and plan may choose q8_0 to fit)]:TYPE\[,TYPE\]:_files' \
            '--exact[same bytes for any batching and number of devices]' \
            '--fit[choose what fits (default on)]:on|off:(on off)' \
            '--fit-margin[memory to leave free on every device, or on each (default\: 1/32 of what is free)]:SIZE\[,SIZE...\]:_files' \
            '--trace[write when each group of nodes ran, for chrome\://tracing]:OUT.json:_files' \
            '--verify[prove plans before they run (default on)]:on|off:(on off)' \
            '--monitor[check every access of devices while running]' \
            '*--device-path[load device kinds from a shared library; may be repeated]:LIB:_files' \
            '--no-mmap[read the file into memory instead of mapping it]' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    inspect)
        _arguments \
            '--tensors[also every tensor]' \
            '--metadata[also every metadata entry (in JSON they are always there)]' \
            '--json[the same as one JSON object]' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    tokenize)
        _arguments \
            '--no-special[neither add BOS and EOS nor recognise special tokens]' \
            '--jsonl[a JSON string a line in, an array a line out]' \
            '--decode[ids to text\: a JSON array in, raw bytes out; with --jsonl an array and a JSON string a line]' \
            '--json[ids as a JSON array (what is printed anyway)]' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    template)
        _arguments \
            '--conversation[all variables as a JSON object\: messages, tools, ... (-\: stdin)]:C.json:_files' \
            '--now[the time that strftime_now prints, "2025-03-09 14\:05\:07" (default\: the clock)]:TIME:_files' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    embed)
        _arguments \
            '-p[the text]:TEXT:_files' \
            '-f[read the text from a file (-\: stdin)]:FILE:_files' \
            '--ids[token ids instead of a text]:1,2,3:_files' \
            '--json[ids and embedding as one JSON object]' \
            '-t[threads of cpu devices without threads= (default\: all processors)]:THREADS:_files' \
            '--devices[devices, kind\[\:key=value\]..., comma-separated (default cpu)]:LIST:_files' \
            '--split[none\: the first device, others for what it lacks; layer\: whole layers (default\: by cost)]:MODE:(none layer tensor)' \
            '--ratio[shares of the devices in weights and cache, for whole layers]:A,B,...:_files' \
            '*--pin[weights, caches, nodes and layers (blk.N) of a name on a device; may be repeated, the first match wins]:PATTERN=DEVICE:_files' \
            '--ctx[context in tokens (default\: the file'\''s, reduced to what fits)]:N:_files' \
            '--batch[most tokens of one step (default 512, reduced to what fits)]:N:_files' \
            '--kv[types of the cache\: keys, values (default f16; run, chat and plan may choose q8_0 to fit)]:TYPE\[,TYPE\]:_files' \
            '--exact[same bytes for any batching and number of devices]' \
            '--fit[choose what fits (default on)]:on|off:(on off)' \
            '--fit-margin[memory to leave free on every device, or on each (default\: 1/32 of what is free)]:SIZE\[,SIZE...\]:_files' \
            '--trace[write when each group of nodes ran, for chrome\://tracing]:OUT.json:_files' \
            '--verify[prove plans before they run (default on)]:on|off:(on off)' \
            '--monitor[check every access of devices while running]' \
            '*--device-path[load device kinds from a shared library; may be repeated]:LIB:_files' \
            '--no-mmap[read the file into memory instead of mapping it]' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    logits)
        _arguments \
            '--ids[token ids to feed]:1,2,3:_files' \
            '--out[float32 little-endian \[ids\]\[vocabulary\], every position]:OUT.f32:_files' \
            '--step[feed N ids at a time instead of all at once]:N:_files' \
            '--decoder-ids[ids for the decoder of encoder-decoder models]:1,2,3:_files' \
            '-t[threads of cpu devices without threads= (default\: all processors)]:THREADS:_files' \
            '--devices[devices, kind\[\:key=value\]..., comma-separated (default cpu)]:LIST:_files' \
            '--split[none\: the first device, others for what it lacks; layer\: whole layers (default\: by cost)]:MODE:(none layer tensor)' \
            '--ratio[shares of the devices in weights and cache, for whole layers]:A,B,...:_files' \
            '*--pin[weights, caches, nodes and layers (blk.N) of a name on a device; may be repeated, the first match wins]:PATTERN=DEVICE:_files' \
            '--ctx[context in tokens (default\: the file'\''s, reduced to what fits)]:N:_files' \
            '--batch[most tokens of one step (default 512, reduced to what fits)]:N:_files' \
            '--kv[types of the cache\: keys, values (default f16; run, chat and plan may choose q8_0 to fit)]:TYPE\[,TYPE\]:_files' \
            '--exact[same bytes for any batching and number of devices]' \
            '--fit[choose what fits (default on)]:on|off:(on off)' \
            '--fit-margin[memory to leave free on every device, or on each (default\: 1/32 of what is free)]:SIZE\[,SIZE...\]:_files' \
            '--trace[write when each group of nodes ran, for chrome\://tracing]:OUT.json:_files' \
            '--verify[prove plans before they run (default on)]:on|off:(on off)' \
            '--monitor[check every access of devices while running]' \
            '*--device-path[load device kinds from a shared library; may be repeated]:LIB:_files' \
            '--no-mmap[read the file into memory instead of mapping it]' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    perplexity)
        _arguments \
            '-p[the text]:TEXT:_files' \
            '-f[read the text from a file (-\: stdin)]:FILE:_files' \
            '--ids[token ids instead of a text]:1,2,3:_files' \
            '--windows[at most N windows (default\: all)]:N:_files' \
            '--json[figures as one JSON object]' \
            '-t[threads of cpu devices without threads= (default\: all processors)]:THREADS:_files' \
            '--devices[devices, kind\[\:key=value\]..., comma-separated (default cpu)]:LIST:_files' \
            '--split[none\: the first device, others for what it lacks; layer\: whole layers (default\: by cost)]:MODE:(none layer tensor)' \
            '--ratio[shares of the devices in weights and cache, for whole layers]:A,B,...:_files' \
            '*--pin[weights, caches, nodes and layers (blk.N) of a name on a device; may be repeated, the first match wins]:PATTERN=DEVICE:_files' \
            '--ctx[context in tokens (default\: the file'\''s, reduced to what fits)]:N:_files' \
            '--batch[most tokens of one step (default 512, reduced to what fits)]:N:_files' \
            '--kv[types of the cache\: keys, values (default f16; run, chat and plan may choose q8_0 to fit)]:TYPE\[,TYPE\]:_files' \
            '--exact[same bytes for any batching and number of devices]' \
            '--fit[choose what fits (default on)]:on|off:(on off)' \
            '--fit-margin[memory to leave free on every device, or on each (default\: 1/32 of what is free)]:SIZE\[,SIZE...\]:_files' \
            '--trace[write when each group of nodes ran, for chrome\://tracing]:OUT.json:_files' \
            '--verify[prove plans before they run (default on)]:on|off:(on off)' \
            '--monitor[check every access of devices while running]' \
            '*--device-path[load device kinds from a shared library; may be repeated]:LIB:_files' \
            '--no-mmap[read the file into memory instead of mapping it]' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    bench)
        _arguments \
            '-p[tokens of the prompt (default 512; 0\: leave out)]:N:_files' \
            '-n[tokens to generate (default 64; 0\: leave out)]:N:_files' \
            '-d[tokens in the cache before (default 0)]:N:_files' \
            '-r[runs of each test (default 5)]:N:_files' \
            '--json[results as one JSON object]' \
            '-t[threads of cpu devices without threads= (default\: all processors)]:THREADS:_files' \
            '--devices[devices, kind\[\:key=value\]..., comma-separated (default cpu)]:LIST:_files' \
            '--split[none\: the first device, others for what it lacks; layer\: whole layers (default\: by cost)]:MODE:(none layer tensor)' \
            '--ratio[shares of the devices in weights and cache, for whole layers]:A,B,...:_files' \
            '*--pin[weights, caches, nodes and layers (blk.N) of a name on a device; may be repeated, the first match wins]:PATTERN=DEVICE:_files' \
            '--ctx[context in tokens (default\: the file'\''s, reduced to what fits)]:N:_files' \
            '--batch[most tokens of one step (default 512, reduced to what fits)]:N:_files' \
            '--kv[types of the cache\: keys, values (default f16; run, chat and plan may choose q8_0 to fit)]:TYPE\[,TYPE\]:_files' \
            '--exact[same bytes for any batching and number of devices]' \
            '--fit[choose what fits (default on)]:on|off:(on off)' \
            '--fit-margin[memory to leave free on every device, or on each (default\: 1/32 of what is free)]:SIZE\[,SIZE...\]:_files' \
            '--trace[write when each group of nodes ran, for chrome\://tracing]:OUT.json:_files' \
            '--verify[prove plans before they run (default on)]:on|off:(on off)' \
            '--monitor[check every access of devices while running]' \
            '*--device-path[load device kinds from a shared library; may be repeated]:LIB:_files' \
            '--no-mmap[read the file into memory instead of mapping it]' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    plan)
        _arguments \
            '--json[plans as one JSON object]' \
            '--machine[plan for the devices that a file describes, whatever is here\: docs/fit.md]:FILE:_files' \
            '--html[also a page with pictures of the plans]:OUT:_files' \
            '--compare[lay a trace (--trace of run, bench, ...) beside the plans instead of printing them]:TRACE:_files' \
            '-t[threads of cpu devices without threads= (default\: all processors)]:THREADS:_files' \
            '--devices[devices, kind\[\:key=value\]..., comma-separated (default cpu)]:LIST:_files' \
            '--split[none\: the first device, others for what it lacks; layer\: whole layers (default\: by cost)]:MODE:(none layer tensor)' \
            '--ratio[shares of the devices in weights and cache, for whole layers]:A,B,...:_files' \
            '*--pin[weights, caches, nodes and layers (blk.N) of a name on a device; may be repeated, the first match wins]:PATTERN=DEVICE:_files' \
            '--ctx[context in tokens (default\: the file'\''s, reduced to what fits)]:N:_files' \
            '--batch[most tokens of one step (default 512, reduced to what fits)]:N:_files' \
            '--kv[types of the cache\: keys, values (default f16; run, chat and plan may choose q8_0 to fit)]:TYPE\[,TYPE\]:_files' \
            '--exact[same bytes for any batching and number of devices]' \
            '--fit[choose what fits (default on)]:on|off:(on off)' \
            '--fit-margin[memory to leave free on every device, or on each (default\: 1/32 of what is free)]:SIZE\[,SIZE...\]:_files' \
            '--trace[write when each group of nodes ran, for chrome\://tracing]:OUT.json:_files' \
            '--verify[prove plans before they run (default on)]:on|off:(on off)' \
            '--monitor[check every access of devices while running]' \
            '*--device-path[load device kinds from a shared library; may be repeated]:LIB:_files' \
            '--no-mmap[read the file into memory instead of mapping it]' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    quantize)
        _arguments \
            '-t[threads (default\: all processors)]:THREADS:_files' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    conformance)
        _arguments \
            '--bench[also time ops at the sizes of models, beside the device'\''s measured limits]' \
            '--deep[more sizes, types, values and rounds\: minutes instead of seconds]' \
            '--only[checks whose names match; * stands for anything (op/matmul*)]:PATTERN:_files' \
            '--lost[also check loss, on this device, which is lost after some commands (sim\:lose=40)]:ITEM:_files' \
            '--monitor[put a monitor around every device, which looks at each call]' \
            '--json[also write every result to a file as JSON]:OUT:_files' \
            '*--device-path[load device kinds from a shared library; may be repeated]:LIB:_files' \
            '--help[this text]' \
            '*:file:_files'
        ;;
    devices)
        _arguments \
            '--devices[these devices instead of one of each kind]:LIST:_files' \
            '--measure[measure again what was measured before]' \
            '*--device-path[load device kinds from a shared library; may be repeated]:LIB:_files' \
            '--json[the same as one JSON object]' \
            '--help[this text]'
        ;;
    doctor)
        _arguments \
            '--help[this text]'
        ;;
    esac
}
_plait "$@"
