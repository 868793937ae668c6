#!/usr/bin/env bash
# Checks permissions with amqp091-go against a broker of its own; see main.go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export GOFLAGS="${GOFLAGS:-} -mod=readonly"
exec go run .
