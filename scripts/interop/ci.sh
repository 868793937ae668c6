#!/usr/bin/env bash
# Runs the suites of real clients against the built broker, once for each I/O
# backend. Arguments are passed on to run.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/broker.sh

for io in ${INTEROP_IO:-posix uring}; do
	broker_start --io "$io"
	echo "== interop against --io $io"
	AMQP_URL="amqp://guest:guest@127.0.0.1:$BROKER_PORT/" scripts/interop/run.sh "$@" || {
		echo "the broker's log:" >&2
		tail -n 50 "$BROKER_LOG" >&2
		exit 1
	}
	broker_stop
done
