#!/usr/bin/env bash
# Runs the suites of real clients against the built broker, once for each I/O
# backend, and judges what they report: ci.sh check|update [SUITE…]. See
# scores/doc.go. The suites spend much of their time waiting, so that two run at
# a time.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/broker.sh
verb=${1:-check}
shift || true

results=$(mktemp -d)
cleanup() {
	broker_stop
	rm -rf "$results"
}

directories=()
for io in ${INTEROP_IO:-posix uring}; do
	broker_start --io "$io"
	trap cleanup EXIT
	echo "== interop against --io $io"
	directories+=("$results/$io")
	INTEROP_BACKEND="$io" AMQP_URL="amqp://guest:guest@127.0.0.1:$BROKER_PORT/" AMQP_WS_URL="ws://127.0.0.1:$BROKER_HTTP_PORT/" INTEROP_RESULTS="$results/$io" INTEROP_JUDGE=no \
		INTEROP_JOBS="${INTEROP_JOBS:-2}" scripts/interop/run.sh "$@"
	if ! kill -0 "$BROKER_PID"; then
		echo "the broker died; its log:" >&2
		tail -n 50 "$BROKER_LOG" >&2
		exit 1
	fi
	cp "$BROKER_LOG" "$results/$io/broker.log"
	broker_stop
done
# The verdict is the last thing printed: a long log may be cut at its start.
status=0
verdict=$(go run ./scripts/interop/scores "$verb" "${directories[@]}" 2>&1) || status=$?
if [[ $status -ne 0 ]]; then
	for directory in "${directories[@]}"; do
		echo "the broker's log:" >&2
		tail -n 20 "$directory/broker.log" >&2
	done
fi
printf '%s\n' "$verdict"
exit "$status"
