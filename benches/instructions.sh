#!/usr/bin/env bash
# Instructions that the protocol takes on the server's side, compared with what they were.
#
#   benches/instructions.sh [--update] [PROFILE]
#
# PROFILE is a cargo profile: bench (what users run, the default) or dev (built for tests anyway, for
# the check run). Counts do not depend on how busy the machine is, and little on what it is; they may
# move by a tenth, and a fifth is let pass. --update writes benches/instructions.txt anew.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/skip.sh

update=
if [ "${1:-}" = --update ]; then
    update=yes
    shift
fi
profile=${1:-bench}
kept=benches/instructions.txt
band=20

if ! command -v valgrind >/dev/null; then
    skip "benches/instructions.sh: there is no valgrind here to count with"
fi

bench=$(cargo bench --quiet --profile "$profile" --bench instructions --no-run --message-format json |
    sed -n 's/.*"kind":\["bench"\].*"executable":"\([^"]*\)".*/\1/p' | tail -1)

count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        --toggle-collect='*InMemory*serve_*' \
        "$bench" "$1" 2>&1 | sed -n 's/.*Collected : //p'
}

# Joins happen in every workload; what is told is what comes after them.
joins=$(count joins)
declare -A per=([game]=4000 [large]=800 [idle]=2000)
verdict=0
printf '| server side | instructions | before |\n|---|---|---|\n'
for workload in joins game large idle; do
    case $workload in
        joins) now=$((joins / 100)) what="a join" ;;
        game) now=$((($(count game) - joins) / per[game])) what="a packet, 64 B" ;;
        large) now=$((($(count large) - joins / 5) / per[large])) what="a packet, 1000 B" ;;
        idle) now=$((($(count idle) - joins) / per[idle])) what="an idle peer, a second" ;;
    esac
    before=$(sed -n "s/^$profile $workload //p" "$kept")
    printf '| %s | %s | %s |\n' "$what" "$now" "${before:--}"
    if [ -n "$update" ]; then
        sed -i "/^$profile $workload /d" "$kept"
        echo "$profile $workload $now" >>"$kept"
    elif [ -z "$before" ]; then
        echo "no count of $workload for profile $profile in $kept" >&2
        verdict=1
    elif [ $((now * 100)) -gt $((before * (100 + band))) ]; then
        echo "$what takes $now instructions, was $before: more than $band % more" >&2
        verdict=1
    elif [ $((now * 100)) -lt $((before * (100 - band))) ]; then
        echo "$what takes $now instructions, was $before: keep that with --update"
    fi
done
exit $verdict
