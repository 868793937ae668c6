#!/usr/bin/env bash
# Runs the same load on two broker binaries in turn (ABBA), each time on an empty
# directory, and prints both medians of every figure and the ratio of B to A with
# its 95 % interval.
#
#   scripts/bench/ab.sh BIN_A BIN_B "throughput -x 1 -y 1 -s 16 -z 2"
#   PAIRS=12            pairs of runs (default 8); below 6 nothing is certain
#   FLAGS_A, FLAGS_B    more flags for each broker
#
# Data directories are made below TMPDIR: that is the disk that is measured. For a
# yes or no about a fixed set of figures there is `basaltmqperf gate`.
set -euo pipefail
if [ $# != 3 ]; then
	echo "usage: $0 BIN_A BIN_B 'SCENARIO OPTIONS'" >&2
	exit 2
fi
a=$(realpath "$1") b=$(realpath "$2")
cd "$(dirname "$0")/../.."
exec bin/basaltmqperf ab --a "$a" --b "$b" --flags-a "${FLAGS_A:-}" --flags-b "${FLAGS_B:-}" -n "${PAIRS:-8}" "$3"
