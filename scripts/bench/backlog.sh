#!/usr/bin/env bash
# Fills one queue with N messages (default 5,000,000), prints what that costs in
# memory and on disk, drains it and checks every message. Exit status 1 when one
# is missing, damaged or out of order.
#
#   N=100000000 scripts/bench/backlog.sh     the large one: about 2 GB on disk
#   RECORD=1    scripts/bench/backlog.sh     writes the result into bench-results/
#   SIZE, BROKER_FLAGS                       body bytes (16), flags for the broker
#
# The data directory is made below TMPDIR: that is the disk that is measured.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/bench/common.sh

N=${N:-5000000}
bench_begin
read -ra flags <<<"${BROKER_FLAGS:-}"
bench_broker "${flags[@]}"
output=()
if [ "${RECORD:-0}" = 1 ]; then
	bench_check_build
	output=(--json "$PREFIX-backlog-$N.json")
fi
"$PERF" backlog --uri "$URI" --broker-pid "$BROKER_PID" "${FACTS[@]}" -C "$N" -s "${SIZE:-16}" "${output[@]}"
if [ "${RECORD:-0}" = 1 ]; then
	"$PERF" table "$RESULTS"
fi
