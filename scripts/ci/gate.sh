#!/usr/bin/env bash
# Did this tree's broker get worse than the baseline's? Builds the broker of the
# commit that bench-results/BASELINE names from the history of this checkout and
# runs `basaltmqperf gate`: both in turn, on this machine, now. Exit status 0:
# no, or the machine was too noisy to tell (the last line says which); 1: yes, or
# administration costs more memory unused than the ceilings in
# perf/gate/thresholds.json allow.
# Less than eight minutes.
#
#   make build && scripts/ci/gate.sh
#   GATE_SECONDS=120 BASELINE=HEAD~3 scripts/ci/gate.sh     shorter, another one
#
# Where the history is cut off before the baseline (a shallow clone) there is
# nothing to compare with: it says so and exits with status 0.
# Data directories are made below TMPDIR: that is the disk that is measured.
set -euo pipefail
cd "$(dirname "$0")/../.."

BASELINE=${BASELINE:-$(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' bench-results/BASELINE | head -n 1 | tr -d '[:space:]')}
GATE_SECONDS=${GATE_SECONDS:-360}

for binary in bin/basaltmq bin/basaltmqperf; do
	[ -x "$binary" ] || {
		echo "gate.sh: $binary is not there: run make build first" >&2
		exit 2
	}
done
if ! commit=$(git rev-parse --quiet --verify "$BASELINE^{commit}" 2>/dev/null); then
	echo "gate: SKIPPED: this checkout's history does not hold the baseline commit $BASELINE; fetch it (git fetch --unshallow) to compare"
	exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$work/source"
git archive "$commit" | tar -x -C "$work/source"
echo "gate: building the baseline, $(git log -1 --format='%h %s' "$commit")"
make -s -C "$work/source" build VERSION="$(git rev-parse --short "$commit")"
mkdir "$work/data"
# Not exec: the trap has to clean up.
status=0
bin/basaltmqperf gate --baseline-binary "$work/source/bin/basaltmq" --candidate-binary bin/basaltmq \
	--time "$GATE_SECONDS" --data-dir "$work/data" --commit "$(git rev-parse --short=12 HEAD)" ${GATE_JSON:+--json "$GATE_JSON"} || status=$?
if [ "$status" = 3 ]; then
	echo "gate: NOT DECIDED on this machine: nothing was found to be worse, and noise could hide it"
	exit 0
fi
exit "$status"
