#!/usr/bin/env bash
# Runs every native fuzz target for a while: scripts/fuzz.sh [TIME, 10s]
#
# The go tool may report "context deadline exceeded" when the time is up while a
# worker is still busy with an input. That is no finding: a finding names the
# file that it wrote the input to, or shows a panic.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

run() { # DIR TARGET
	echo "fuzz $1 $2 for $time"
	go test "$1" -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 1x -parallel 2 </dev/null >"$log" 2>&1 && {
		tail -n 2 "$log"
		return 0
	}
	if grep -q '^ *context deadline exceeded$' "$log" && ! grep -qE 'Failing input written|panic|fuzzing process hung' "$log"; then
		echo "ended at its deadline with a worker busy"
		return 0
	fi
	cat "$log"
	return 1
}

for file in $(grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' . | sort); do
	for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$file" | sed 's/^func //'); do
		run "$(dirname "$file")" "$target"
	done
done
