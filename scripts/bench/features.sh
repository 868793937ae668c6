#!/usr/bin/env bash
# Measures what features cost (basaltmqperf features) on a broker of its own with
# an empty directory. ROUNDS runs (default 1), each about 80 seconds; nothing else
# should run on the machine.
#
#   RECORD=1 scripts/bench/features.sh       writes the results into bench-results/
#   SECONDS_EACH=1 RELAY_SECONDS=0.2         shorter; FEATURES=a,b only these
#   RESULTS, BROKER_FLAGS                    another directory for results, flags for the broker
#
# SIGNING_KEY=FILE signs what is recorded with that private key (docs/perf.md).
#
# The cost of permissions needs a user with patterns, who comes from a definitions
# file; where the broker does not read one it is left out.
set -euo pipefail
cd "$(dirname "$0")/../.."
results=${RESULTS:-bench-results}
. scripts/bench/common.sh
RESULTS=$results
ROUNDS=${ROUNDS:-1}

bench_begin
mkdir -p "$RESULTS"
PREFIX=$RESULTS/$(basename "$PREFIX")
read -ra flags <<<"${BROKER_FLAGS:-}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

limited=()
if bin/basaltmq --help 2>&1 | grep -q -- '-definitions'; then
	cat >"$work/definitions.json" <<'JSON'
{
  "vhosts": [{"name": "/"}],
  "users": [
    {"name": "guest", "password": "guest", "tags": "administrator"},
    {"name": "patterns", "password": "patterns", "tags": ""}
  ],
  "permissions": [
    {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
    {"user": "patterns", "vhost": "/", "configure": "^(perf|bench)-[a-z0-9-]+$", "write": "^(amq\\.default|perf-.*)$", "read": "^perf-(feature|other)-.*$"}
  ]
}
JSON
	flags+=(--definitions "$work/definitions.json")
	limited=(yes)
fi

for round in $(seq "$ROUNDS"); do
	bench_fresh "${flags[@]}"
	trap 'broker_stop; rm -rf "$work"' EXIT
	output=()
	if [ "${RECORD:-0}" = 1 ]; then
		bench_check_build
		output=(--json "$PREFIX-features-run$round.json")
	fi
	[ ${#limited[@]} = 0 ] || output+=(--limited-uri "amqp://patterns:patterns@127.0.0.1:$BROKER_PORT/")
	[ -z "${FEATURES:-}" ] || output+=(--features "$FEATURES")
	"$PERF" features --uri "$URI" --broker-pid "$BROKER_PID" "${FACTS[@]}" -z "${SECONDS_EACH:-2}" \
		--calibrate "${RELAY_SECONDS:-0.3}" "${output[@]}"
done
if [ "${RECORD:-0}" = 1 ]; then
	if [ -n "${SIGNING_KEY:-}" ]; then
		"$PERF" sign --key "$SIGNING_KEY" "$PREFIX"-features-run*.json >/dev/null
	fi
	"$PERF" table "$RESULTS"
fi
