# What the scripts of this folder share: sourced, never run. It goes to the root of the tree and defines functions.
# Invariant: nothing here asks a question, and nothing is installed, built or fetched that is there already.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
caller=$PWD # paths in arguments and the environment are meant from here
self=$(basename "$0")
script=$(cd "$(dirname "$0")" && pwd)/$self
cd "$(dirname "${BASH_SOURCE[0]}")/.."

absolute() { case $1 in /*) printf '%s' "$1" ;; *) printf '%s' "$caller/$1" ;; esac }

# Debian packages, by what needs them.
packages_build=(gcc libc6-dev cmake ninja-build pkg-config libpcre2-dev libutf8proc-dev libjansson-dev
    libcmocka-dev libsimde-dev zlib1g-dev libhwloc-dev)
packages_clang=(clang libclang-rt-14-dev)
packages_models=(python3 python3-pip ca-certificates)
packages_test=(g++ git python3 clang-format-14 util-linux)
packages_arm64=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libcmocka-dev:arm64)

# Where fetched models and measured figures are kept; tests find the models by PLAIT_MODELS.
home=~
models=$(absolute "${PLAIT_MODELS:-${XDG_CACHE_HOME:-$home/.cache}/plait}")
smollm2=$models/SmolLM2-135M-Instruct.Q4_1.gguf

say() { printf '%s: %s\n' "$self" "$*" >&2; }
die() {
    say "$*"
    exit 1
}
usage() { # the comment at the top of the calling script is its help
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$script"
    exit "${1:-0}"
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
can_be_root() { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }

# packages NAME...: installs those that are missing; a package for another architecture is written NAME:ARCH.
packages() {
    if ! command -v dpkg-query >/dev/null; then
        say "not a Debian system: not checking for $*"
        return 0
    fi
    local missing=() name
    for name in "$@"; do
        # A package present for several architectures has a line for each.
        dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    can_be_root || die "these packages are missing, and neither root nor sudo is at hand to install them: ${missing[*]}"
    say "installing ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { as_root apt-get -q update &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
            --no-install-recommends install "${missing[@]}"; } \
        </dev/null >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        die "could not install ${missing[*]}; the whole output is in $log"
    fi
    rm -f "$log"
}

# How many jobs at once: the processors this process may use.
jobs=$(nproc 2>/dev/null || echo 2)

# build PRESET [TARGET...]: configures build/PRESET when that is needed, and builds the targets, or everything. Quiet
# unless it fails.
build() {
    local preset=$1 folder=build/$1 log
    shift
    mkdir -p "$folder"
    log=$folder/build.log
    if [ ! -f "$folder/build.ninja" ] || [ CMakePresets.json -nt "$folder/build.ninja" ]; then
        say "configuring $folder"
        cmake --preset "$preset" -DPLAIT_TESTS=ON >"$log" 2>&1 </dev/null || {
            tail -n 40 "$log" >&2
            die "could not configure $folder; the whole output is in $log"
        }
        touch "$folder/build.ninja"
    fi
    say "building $folder"
    ninja -C "$folder" -j "$jobs" "$@" >"$log" 2>&1 </dev/null || {
        grep -E -A 12 '^FAILED|error:|Error' "$log" | head -n 60 >&2
        die "could not build $folder; the whole output is in $log"
    }
}

# run_tests PRESET CTEST-ARGUMENT...: runs the tests of build/PRESET and prints "N passed, M failed" last; a skipped test
# counts as failed. Returns 1 when any failed.
run_tests() {
    local folder=build/$1 log=build/$1/test.log result=0 failed total skipped wrapper=()
    # Address-space randomisation beyond 28 bits is more than the thread sanitizer of these compilers bears.
    [ "$1" != tsan ] || wrapper=(setarch "$(uname -m)" -R)
    shift
    PLAIT_MODELS=$models ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
        "${wrapper[@]}" ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=error "$@" </dev/null 2>&1 |
        tee "$log" || result=1
    # ctest's own summary: "97% tests passed, 1 tests failed out of 38"
    read -r failed total < <(
        sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log"
    ) || die "ctest gave no summary; its output is in $log"
    skipped=$(grep -c '\*\*\*Skipped' "$log" || true)
    [ "$skipped" -eq 0 ] || result=1
    printf '%d passed, %d failed\n' $((total - failed - skipped)) $((failed + skipped))
    return "$result"
}
