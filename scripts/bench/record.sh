#!/usr/bin/env bash
# Records the figures of a release into bench-results/ and renders its README:
# throughput, latency, confirms, backlog, each between two measurements of its
# yardstick. Headline figures run three times, interleaved, so that a machine
# that gets slower in the meantime hits all of them. About four minutes on a
# quiet machine; nothing else should run on it.
#
#   scripts/bench/record.sh
#   ROUNDS=1 SECONDS_EACH=1 RESULTS=/somewhere/else scripts/bench/record.sh   to try it
#
# SIGNING_KEY=FILE signs the results with that private key (docs/perf.md).
#
# The data directory is made below TMPDIR: that is the disk that is measured.
# Needs a committed tree: a file name says which commit was measured.
set -euo pipefail
cd "$(dirname "$0")/../.."
results=${RESULTS:-bench-results}
. scripts/bench/common.sh
RESULTS=$results
ROUNDS=${ROUNDS:-3}
SECONDS_EACH=${SECONDS_EACH:-4}
RELAY_SECONDS=${RELAY_SECONDS:-1}
BACKLOG=${BACKLOG:-5000000}

bench_begin
case $COMMIT in
*-dirty)
	[ "${ALLOW_DIRTY:-0}" = 1 ] || {
		echo "record.sh: the tree has changes that are not committed (ALLOW_DIRTY=1 records all the same)" >&2
		exit 1
	}
	;;
esac
mkdir -p "$RESULTS"
PREFIX=$RESULTS/$(basename "$PREFIX")

step() { printf '%4ds  %s\n' "$SECONDS" "$*"; }

# throughput NAME ROUND options…: on a broker of its own, so that memory figures
# are this workload's; the tool measures the relay before and after.
throughput() {
	local name=$1 round=$2
	shift 2
	step "$name, run $round"
	bench_fresh
	"$PERF" throughput --uri "$URI" --broker-pid "$BROKER_PID" "${FACTS[@]}" -q -z "$SECONDS_EACH" \
		--calibrate "$RELAY_SECONDS" --json "$PREFIX-$name-run$round.json" "$@" >/dev/null
}

calibrate() {
	step "yardsticks, $1"
	"$PERF" calibrate "${FACTS[@]}" -z 2 --disk-time 0.5 --json "$PREFIX-yardsticks-$1.json" >/dev/null
}

bench_broker
bench_check_build
calibrate before
for round in $(seq "$ROUNDS"); do
	throughput end-to-end-16B "$round" -x 1 -y 1 -s 16
	throughput end-to-end-1KiB "$round" -x 1 -y 1 -s 1KiB
	throughput acks-100-16B "$round" -x 1 -y 1 -s 16 -a 100 -P 1000
	throughput publish-only-16B "$round" -x 1 -y 0 -s 16
	throughput publish-only-1KiB "$round" -x 1 -y 0 -s 1KiB -z 2
	throughput latency-100k "$round" -x 1 -y 1 -s 16 -r 100k -l
	step "confirms, run $round"
	bench_fresh
	"$PERF" confirm --uri "$URI" --broker-pid "$BROKER_PID" "${FACTS[@]}" -q -z 2 --warmup 0.5 --raw-time 0.4 \
		--json "$PREFIX-confirm-run$round.json" >/dev/null
done
step "backlog of $BACKLOG messages"
bench_fresh
"$PERF" backlog --uri "$URI" --broker-pid "$BROKER_PID" "${FACTS[@]}" -q -C "$BACKLOG" \
	--json "$PREFIX-backlog-$BACKLOG.json" >/dev/null
bench_fresh
calibrate after
if [ -n "${SIGNING_KEY:-}" ]; then
	"$PERF" sign --key "$SIGNING_KEY" "$PREFIX"-*.json >/dev/null
fi
"$PERF" table "$RESULTS"
step "done: $RESULTS/README.md"
