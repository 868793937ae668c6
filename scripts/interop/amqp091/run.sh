#!/usr/bin/env bash
# Runs amqp091-go's own integration tests against $AMQP_URL; see main.go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export GOFLAGS="${GOFLAGS:-} -mod=readonly"
exec go run .
