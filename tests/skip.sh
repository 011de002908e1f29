# For the scripts beside this: ends one that cannot do its work here, by saying so. Where nothing may be left out
# (TIDEGATE_NO_SKIPS, as in the check run), that is a failure.
skip() {
    echo "SKIPPED $*" >&2
    [ -z "${TIDEGATE_NO_SKIPS:-}" ] || exit 1
    exit 0
}
