#!/usr/bin/env bash
# Runs every native fuzz target for a while: scripts/fuzz.sh [TIME, 10s]
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}

grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' . | sort | while read -r file; do
	dir=$(dirname "$file")
	grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$file" | sed 's/^func //' | while read -r target; do
		echo "fuzz $dir $target for $time"
		go test "$dir" -run '^$' -fuzz "^${target}\$" -fuzztime "$time" -fuzzminimizetime 1x -parallel 2 </dev/null
	done
done
