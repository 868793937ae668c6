# Sourced by the scripts beside it, from the top directory: what they have in
# common, on top of scripts/broker.sh.
#
#   bench_begin           names the commit; sets PREFIX, the start of file names
#   bench_broker [flags]  starts a broker on an empty directory; sets URI and
#                         FACTS, the options that tell basaltmqperf about it
#   bench_fresh [flags]   the same in place of the broker that runs
#   bench_check_build     ends the script unless that broker was built from the
#                         commit that the result will name

. scripts/broker.sh

PERF=bin/basaltmqperf
RESULTS=bench-results
PREFIX=

bench_begin() {
	COMMIT=$(git rev-parse --short=12 HEAD)
	# A figure of an unknown state of the sources is worth nothing. Results
	# themselves don't count as a change.
	if [ -n "$(git --no-optional-locks status --porcelain --untracked-files=no -- . ":!$RESULTS")" ]; then
		COMMIT=$COMMIT-dirty
	fi
	PREFIX=$RESULTS/$(date -u +%Y-%m-%d)-${COMMIT//-/}
}

bench_broker() {
	broker_start "$@"
	URI=amqp://guest:guest@127.0.0.1:$BROKER_PORT/
	FACTS=(--data-dir "$BROKER_DIR/data" --durability-level "$(broker_field durability)"
		--io-backend "sockets: $(broker_field sockets), files: $(broker_field files)" --commit "$COMMIT")
}

bench_check_build() {
	local built expected
	built=$(broker_field version)
	expected=$(git describe --tags --always)
	case $COMMIT in *-dirty) expected=$expected-dirty ;; esac
	if [ "$built" != "$expected" ]; then
		echo "bin/basaltmq is $built, the tree is $expected: commit, then run make build, or the result names the wrong commit" >&2
		exit 1
	fi
}

bench_fresh() {
	broker_stop
	bench_broker "$@"
}
