#!/usr/bin/env bash
# deep.sh SECONDS [TARGET...]: coverage-guided fuzzing of these targets, or of all, one core, so long
# for each. Prints a row of docs/RELIABILITY.md per target; fails when one found something.
#
# The stable compiler does: libFuzzer is instrumentation that any rustc can add, and a C++ library that
# libfuzzer-sys builds (a C++ compiler is needed). No address sanitizer: it is nightly only, and the
# code under test is safe Rust. Corpora stay in target/fuzz/corpus, inputs that failed in
# target/fuzz/found.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?seconds for each target}
shift
if [ $# = 0 ]; then
    for file in fuzz/targets/*.rs; do set -- "$@" "$(basename "$file" .rs)"; done
fi

host=$(rustc -vV | sed -n 's/^host: //p')
# With --target these flags are for the targets only, not for build scripts.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing"
bins=()
for target; do bins+=(--bin "$target"); done
cargo build --quiet --profile fuzz --features engine --package tidegate-fuzz \
    --target "$host" --target-dir target/fuzz "${bins[@]}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

# Fuzzes one target for so many seconds, into the log.
fuzz() {
    TIDEGATE_FUZZ_SEEDS=target/fuzz/corpus/$1 nice "target/fuzz/$host/fuzz/$1" \
        -max_total_time="$2" -max_len=2048 -timeout=5 -rss_limit_mb=1024 -malloc_limit_mb=64 \
        -print_final_stats=1 -artifact_prefix="target/fuzz/found/$1-" "target/fuzz/corpus/$1" >>"$log" 2>&1
}

# Edges in the nth line of the log that says this word.
edges() {
    grep -a "[[:space:]]$1[[:space:]]" "$log" | sed -n "$2p" | sed 's/.*cov: \([0-9]*\).*/\1/'
}

echo "| target | executions | edges at the start | after half | at the end | inputs kept |"
echo "|---|---|---|---|---|---|"
for target; do
    mkdir -p "target/fuzz/corpus/$target" target/fuzz/found
    : >"$log"
    # In two halves, so that the second shows whether anything new was still found.
    if fuzz "$target" $((seconds / 2)) && fuzz "$target" $((seconds - seconds / 2)); then
        runs=$(awk '/^stat::number_of_executed_units/ { sum += $2 } END { print sum }' "$log")
        kept=$(find "target/fuzz/corpus/$target" -type f | wc -l)
        echo "| \`$target\` | $runs | $(edges INITED 1) | $(edges DONE 1) | $(edges DONE 2) | $kept |"
    else
        failed=1
        echo "| \`$target\` | found something: $(ls -t target/fuzz/found/"$target"-* | head -1) | | | | |"
        tail -40 "$log" >&2
    fi
done
exit $failed
