#!/usr/bin/env bash
# Measures BasaltMQ and Debian's RabbitMQ in turn with the loads of
# scripts/bench/record.sh, in the same run, each on a fresh broker with default
# settings, and writes a directory of JSON results and a table of both:
#
#   scripts/peers/rabbitmq.sh                    bench-results/peers/DATE-COMMIT/
#   FIGURES="end-to-end-16B confirm" ROUNDS=1 SECONDS_EACH=1 \
#     RESULTS=/somewhere/else ALLOW_DIRTY=1 scripts/peers/rabbitmq.sh     to try it
#
# About ten minutes on a quiet machine. Installs rabbitmq-server and jq where
# they are missing (root), without starting a service. RabbitMQ runs on loopback
# with directories, ports and an epmd of its own. SIGNING_KEY=FILE signs the results.
#
# The data directories are made below TMPDIR: that is the disk that is measured.
set -euo pipefail
cd "$(dirname "$0")/../.."
results=${RESULTS:-bench-results/peers}
. scripts/bench/common.sh
. scripts/peers/rabbitmq-node.sh
RESULTS=$results
ROUNDS=${ROUNDS:-3}
SECONDS_EACH=${SECONDS_EACH:-4}
RELAY_SECONDS=${RELAY_SECONDS:-1}
# Fewer than record.sh's: RabbitMQ keeps transient messages in memory, about 4 KiB
# each, and stops its publishers when that is 40 % of the machine's.
BACKLOG=${BACKLOG:-250000}
COMBINATIONS=${COMBINATIONS:-1x1,1x100,1x1000,1x10000,100x100,1000x10}
FIGURES=${FIGURES:-end-to-end-16B end-to-end-1KiB acks-100-16B publish-only-16B publish-only-1KiB confirm backlog}

bench_begin
case $COMMIT in
*-dirty)
	[ "${ALLOW_DIRTY:-0}" = 1 ] || {
		echo "rabbitmq.sh: the tree has changes that are not committed (ALLOW_DIRTY=1 records all the same)" >&2
		exit 1
	}
	;;
esac
rabbitmq_install
command -v jq >/dev/null || apt-get install -y -qq --no-install-recommends jq >/dev/null
DIRECTORY=$RESULTS/$(basename "$PREFIX")
mkdir -p "$DIRECTORY"

step() { printf '%4ds  %s\n' "$SECONDS" "$*"; }

# peer_start BROKER: sets URI, PID and FACTS.
peer_start() {
	case $1 in
	basaltmq)
		bench_broker
		bench_check_build
		PID=$BROKER_PID
		;;
	rabbitmq)
		rabbitmq_start
		PID=$RABBITMQ_PID
		URI=amqp://guest:guest@127.0.0.1:$RABBITMQ_PORT/
		FACTS=(--data-dir "$RABBITMQ_DIR/data" --durability-level "classic queue, RabbitMQ's defaults"
			--io-backend "Erlang" --commit "Debian package $RABBITMQ_VERSION")
		;;
	esac
}

peer_stop() {
	case $1 in
	basaltmq) broker_stop ;;
	rabbitmq) rabbitmq_stop ;;
	esac
}

# measure SCENARIO FILE options…
measure() {
	local scenario=$1 file=$2
	shift 2
	"$PERF" "$scenario" --uri "$URI" --broker-pid "$PID" "${FACTS[@]}" -q --json "$file" "$@" >/dev/null
}

throughput() {
	local file=$1
	shift
	measure throughput "$file" -z "$SECONDS_EACH" --calibrate "$RELAY_SECONDS" "$@"
}

# figure NAME FILE: the loads of scripts/bench/record.sh.
figure() {
	case $1 in
	end-to-end-16B) throughput "$2" -x 1 -y 1 -s 16 ;;
	end-to-end-1KiB) throughput "$2" -x 1 -y 1 -s 1KiB ;;
	acks-100-16B) throughput "$2" -x 1 -y 1 -s 16 -a 100 -P 1000 ;;
	publish-only-16B) throughput "$2" -x 1 -y 0 -s 16 ;;
	publish-only-1KiB) throughput "$2" -x 1 -y 0 -s 1KiB -z 2 ;;
	confirm) measure confirm "$2" -w "$COMBINATIONS" -z 2 --warmup 0.5 --raw-time 0.4 ;;
	backlog) measure backlog "$2" -C "$BACKLOG" ;;
	*)
		echo "rabbitmq.sh: there is no figure $1" >&2
		return 1
		;;
	esac
}

for round in $(seq "$ROUNDS"); do
	for name in $FIGURES; do
		# The backlog takes long and varies little.
		[ "$name" != backlog ] || [ "$round" = 1 ] || continue
		for broker in basaltmq rabbitmq; do
			step "$name, $broker, run $round"
			peer_start "$broker"
			figure "$name" "$DIRECTORY/$name-$broker-run$round.json"
			peer_stop "$broker"
		done
	done
done
if [ -n "${SIGNING_KEY:-}" ]; then
	"$PERF" sign --key "$SIGNING_KEY" "$DIRECTORY"/*.json >/dev/null
fi
jq -rs -f scripts/peers/table.jq "$DIRECTORY"/*.json >"$DIRECTORY/README.md"
step "done: $DIRECTORY/README.md"
