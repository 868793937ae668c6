#!/usr/bin/env bash
# Runs amqp091-go's own integration tests; see main.go. Some drop connections by the
# management API on its usual port, so that all run against a broker of its own, or
# with INTEROP_EXTERNAL=1 against that at $AMQP_URL.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export GOFLAGS="${GOFLAGS:-} -mod=readonly"
if [[ -n "${INTEROP_EXTERNAL:-}" ]]; then exec go run .; fi
export GOPROXY=off # there is no way out of the namespace
exec ../with-broker.sh go run .
