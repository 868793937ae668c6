#!/usr/bin/env bash
# Starts a broker on an empty data directory and a free port, drives it with the
# load generator for about ten seconds, prints a small table, and leaves nothing
# behind. SECONDS_TO_RUN changes the duration.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
pid=
finish() {
	if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
		kill "$pid"
		wait "$pid" || true
	fi
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

bin/basaltmq -D "$dir/data" --amqp-port 0 2>"$dir/log" &
pid=$!

port=
for _ in $(seq 100); do
	port=$(sed -nE 's/.*BasaltMQ is ready.* amqp=[^ ]*:([0-9]+).*/\1/p' "$dir/log")
	[ -n "$port" ] && break
	kill -0 "$pid" 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
	sleep 0.1
done
[ -n "$port" ] || { echo "the broker did not get ready:" >&2; cat "$dir/log" >&2; exit 1; }

echo "broker: $(sed -nE 's/.*BasaltMQ is ready" //p' "$dir/log")"
bin/basaltmqperf throughput --uri "amqp://guest:guest@127.0.0.1:$port/" \
	-x 1 -y 1 -s 16 -z "${SECONDS_TO_RUN:-10}" --broker-pid "$pid" --json "$dir/result.json"

field() { sed -nE "s/.* $1=([^ ]+).*/\1/p" "$dir/log" | head -1; }
echo
echo "sockets        $(field sockets)"
echo "files          $(field files)"
echo "durability     $(field durability)"
