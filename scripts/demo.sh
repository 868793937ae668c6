#!/usr/bin/env bash
# Starts a broker on an empty data directory and a free port, drives it with the
# load generator for about ten seconds (SECONDS_TO_RUN), prints a small table,
# and leaves nothing running.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/broker.sh

broker_start
echo "broker on port $BROKER_PORT, driven by basaltmqperf for ${SECONDS_TO_RUN:-10} s: 16-byte messages, 1 publisher, 1 consumer, durable queue, no acks"
bin/basaltmqperf throughput --uri "amqp://guest:guest@127.0.0.1:$BROKER_PORT/" \
	-x 1 -y 1 -s 16 -z "${SECONDS_TO_RUN:-10}" --broker-pid "$BROKER_PID"
printf '%-22s %s, files: %s\n' "I/O backend" "sockets: $(broker_field sockets)" "$(broker_field files)"
printf '%-22s %s\n' "Durability level" "$(broker_field durability)"
