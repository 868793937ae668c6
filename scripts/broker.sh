# Sourced by scripts that need a broker: starts one on an empty directory and a
# free port and stops it when the script ends.
#
#   broker_start [flags]   sets BROKER_PID, BROKER_PORT, BROKER_LOG, and
#                          BROKER_HTTP_PORT, the port of the HTTP API
#   broker_stop

BROKER_PID=
BROKER_DIR=
# Ports that nobody else has, too; by environment, so that a flag still counts.
export BASALTMQ_HTTP_PORT=0 BASALTMQ_METRICS_PORT=0

broker_start() {
	BROKER_DIR=$(mktemp -d)
	BROKER_LOG=$BROKER_DIR/log
	: >"$BROKER_LOG" # the broker may open it later than it is read below
	trap 'broker_stop' EXIT
	trap 'exit 130' INT TERM
	bin/basaltmq -D "$BROKER_DIR/data" --amqp-port 0 "$@" 2>"$BROKER_LOG" &
	BROKER_PID=$!
	BROKER_PORT=
	for _ in $(seq 100); do
		BROKER_PORT=$(sed -nE 's/.*BasaltMQ is ready.* amqp=[^ ]*:([0-9]+).*/\1/p' "$BROKER_LOG")
		# shellcheck disable=SC2034 # for the caller
		BROKER_HTTP_PORT=$(sed -nE 's/.*BasaltMQ is ready.* http=[^ ]*:([0-9]+).*/\1/p' "$BROKER_LOG")
		[ -n "$BROKER_PORT" ] && return 0
		kill -0 "$BROKER_PID" 2>/dev/null || break
		sleep 0.1
	done
	echo "the broker did not get ready:" >&2
	cat "$BROKER_LOG" >&2
	return 1
}

# broker_field NAME: a field of the broker's start line.
broker_field() { sed -nE "/BasaltMQ is ready/s/.* $1=(\"[^\"]*\"|[^ ]+).*/\1/p" "$BROKER_LOG" | head -n 1; }

broker_stop() {
	if [ -n "$BROKER_PID" ] && kill -0 "$BROKER_PID" 2>/dev/null; then
		kill "$BROKER_PID"
		wait "$BROKER_PID" || true
	fi
	BROKER_PID=
	[ -z "$BROKER_DIR" ] || rm -rf "$BROKER_DIR"
	BROKER_DIR=
}
