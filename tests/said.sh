# Sourced by scripts that start programs. Ports are the kernel's choice, which the programs tell: a port that
# was free a moment ago may be somebody else's now.

# The group of PATTERN in the first line of FILE that has it, once there is one.
said() { # FILE PATTERN
    local found end=$((SECONDS + 60))
    until found=$(sed -nE "\\|$2|{s|.*$2.*|\\1|p;q}" "$1") && [ -n "$found" ]; do
        if [ "$SECONDS" -gt "$end" ]; then
            echo "not said in $1 within 60 s: $2" >&2
            return 1
        fi
        sleep 0.1
    done
    echo "$found"
}
