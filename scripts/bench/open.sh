#!/usr/bin/env bash
# Measures how long a broker takes to open a data directory: from exec to its
# start line. Two directories, MESSAGES messages of 16 bytes in one queue (default
# 20,000,000) and QUEUES durable queues of 5 messages each (default 10,000), each
# after a stop in good order and after kill -9.
#
#   MESSAGES=100000000 scripts/bench/open.sh   the large one: about 2 GB on disk
#   RECORD=1           scripts/bench/open.sh   writes the result into bench-results/
#   COLD=1             drop the page cache before each start (needs root)
#   RESULTS, BROKER_FLAGS                      another directory for results, flags for the broker
#
# The data directory is made below TMPDIR: that is the disk that is measured.
set -euo pipefail
cd "$(dirname "$0")/../.."
results=${RESULTS:-bench-results}
. scripts/bench/common.sh
RESULTS=$results

MESSAGES=${MESSAGES:-20000000}
QUEUES=${QUEUES:-10000}
PER_QUEUE=5
read -ra flags <<<"${BROKER_FLAGS:-}"
work=$(mktemp -d)
starts=()

# fill CASE: puts the messages of a case into the broker that runs. All are
# confirmed, so all are there after a kill.
fill() {
	case $1 in
	backlog) "$PERF" throughput --uri "$URI" "${FACTS[@]}" -q -x 1 -y 0 -s 16 -p -c 10000 -C "$MESSAGES" --json "$work/fill.json" ;;
	queues) "$PERF" throughput --uri "$URI" "${FACTS[@]}" -q -x 1 -y 0 -s 16 -p -c "$PER_QUEUE" -e amq.fanout --queue-pattern 'open-%' \
		--queue-pattern-to "$QUEUES" -C "$PER_QUEUE" --json "$work/fill.json" ;;
	esac >/dev/null
}

# end SIGNAL: ends the broker, keeping its directory.
end() {
	kill "-$1" "$BROKER_PID"
	wait "$BROKER_PID" 2>/dev/null || true
	BROKER_PID=
}

# reopen: starts the broker on the directory as it is and sets TOOK, in ms.
reopen() {
	local began line
	mkfifo "$work/start"
	began=$EPOCHREALTIME
	bin/basaltmq -D "$BROKER_DIR/data" --amqp-port 0 "${flags[@]}" 2>"$work/start" &
	BROKER_PID=$!
	exec 9<"$work/start"
	: >"$BROKER_LOG"
	while IFS= read -r line <&9; do
		TOOK=$(((${EPOCHREALTIME/[.,]/} - ${began/[.,]/}) / 1000))
		printf '%s\n' "$line" >>"$BROKER_LOG"
		case $line in *"BasaltMQ is ready"*) break ;; esac
	done
	cat <&9 >>"$BROKER_LOG" &
	exec 9<&-
	rm "$work/start"
	[ -n "$(broker_field queues)" ] || {
		echo "the broker did not get ready:" >&2
		cat "$BROKER_LOG" >&2
		exit 1
	}
}

bench_begin
mkdir -p "$RESULTS"
PREFIX=$RESULTS/$(basename "$PREFIX")
for case in backlog queues; do
	for stop in clean kill; do
		bench_broker "${flags[@]}"
		trap 'broker_stop; rm -rf "$work"' EXIT
		[ "${RECORD:-0}" = 0 ] || bench_check_build
		fill "$case"
		if [ "$stop" = clean ]; then end TERM; else end KILL; fi
		[ "${COLD:-0}" = 0 ] || { sync && echo 1 >/proc/sys/vm/drop_caches; }
		reopen
		printf '%-8s %-6s %8s queues %12s messages  %6d ms\n' "$case" "$stop" "$(broker_field queues)" "$(broker_field messages)" "$TOOK"
		starts+=("    {\"case\": \"$case\", \"stop\": \"$stop\", \"cold\": $([ "${COLD:-0}" = 0 ] && echo false || echo true), \"queues\": $(broker_field queues), \"messages\": $(broker_field messages), \"milliseconds\": $TOOK}")
		broker_stop
	done
done
if [ "${RECORD:-0}" = 1 ]; then
	{
		printf '{\n  "scenario": "open",\n  "interrupted": false,\n  "starts": [\n'
		printf '%s\n' "${starts[@]}" | sed '$!s/$/,/'
		printf '  ],\n'
		sed -n '/^  "versions": {/,$p' "$work/fill.json"
	} >"$PREFIX-open-$MESSAGES.json"
	"$PERF" table "$RESULTS"
fi
