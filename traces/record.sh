#!/usr/bin/env bash
# Records the golden traces again, with the program at $1. Texts of prompts are not in a trace.
set -uo pipefail
program=$1
cd "$(dirname "$0")"
record() {
    local name=$1
    shift
    rm -f "$name.vtrace"
    "$program" run --tokens 3 --trace "$name.vtrace" "$@" >/dev/null 2>&1
    echo "$name: exit $?, $(stat -c %s "$name.vtrace") bytes"
}
record healthy
record kitchen-only --purge kitchen-only
record stale-graph --purge no-owner-caches
record torn-entry --purge kitchen-only --kill-threshold 1536
long=$(for _ in $(seq 40); do printf 'the king and the crown of '; done)
record fragmentation --purge soft --vram 4mb --prompt "To be" --prompt "$long"
