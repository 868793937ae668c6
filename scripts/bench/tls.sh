#!/usr/bin/env bash
# Measures what TLS costs: throughput of 16 B and 1 KiB with and without it, and
# the memory of an idle connection with and without it. A certificate is made for
# it. Nothing else should run on the machine.
#
#   RECORD=1 scripts/bench/tls.sh      writes the results into bench-results/ and
#                                      renders its README; about 40 seconds
#   SECONDS_EACH (3), CONNECTIONS (500,2000), RESULTS (another directory)
#   SIGNING_KEY=FILE                   signs them with that private key (docs/perf.md)
#
# The tool carries its own end of TLS through goroutines, which limits throughput
# before the broker does: look at the broker's CPU per message.
set -euo pipefail
cd "$(dirname "$0")/../.."
results=${RESULTS:-bench-results}
. scripts/bench/common.sh
RESULTS=$results

bench_begin
mkdir -p "$RESULTS"
PREFIX=$RESULTS/$(basename "$PREFIX")
work=$(mktemp -d)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost \
	-keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
secure=(--cert "$work/cert.pem" --key "$work/key.pem" --amqps-port 0 --https-port 0)

# uri SCHEME: where the broker serves it
uri() {
	case $1 in
	amqp) echo "$URI" ;;
	amqps) echo "amqps://guest:guest@$(broker_field amqps)/" ;;
	esac
}

# name SCHEME: what results with it are called
name() {
	case $1 in
	amqp) echo plain ;;
	amqps) echo tls ;;
	esac
}

# record NAME: the options that write a result, if that is wanted
record() {
	output=()
	[ "${RECORD:-0}" != 1 ] || output=(--json "$PREFIX-$1.json")
}

for scheme in amqp amqps; do
	bench_fresh "${secure[@]}"
	trap 'broker_stop; rm -rf "$work"' EXIT
	[ "${RECORD:-0}" != 1 ] || bench_check_build
	for size in 16 1024; do
		record "$(name $scheme)-$size"
		"$PERF" throughput -q --uri "$(uri $scheme)" -s $size -z "${SECONDS_EACH:-3}" --broker-pid "$BROKER_PID" "${FACTS[@]}" "${output[@]}"
	done
	bench_fresh "${secure[@]}"
	record "$(name $scheme)-connections"
	"$PERF" connection-count -q --uri "$(uri $scheme)" -n "${CONNECTIONS:-500,2000}" --broker-pid "$BROKER_PID" "${FACTS[@]}" "${output[@]}"
done
if [ "${RECORD:-0}" = 1 ]; then
	if [ -n "${SIGNING_KEY:-}" ]; then
		"$PERF" sign --key "$SIGNING_KEY" "$PREFIX"-{plain,tls}-*.json >/dev/null
	fi
	"$PERF" table "$RESULTS"
	echo "recorded: $RESULTS/README.md"
fi
