#!/usr/bin/env bash
# Runs a command beside a broker of its own on the usual ports, 5672 and 15672, in
# a network namespace of its own, where nobody else has them: with-broker.sh
# COMMAND…. For suites whose tests name the management API's port. The built broker
# (bin/basaltmq) runs with --io $INTEROP_BACKEND, default auto. Root, or user
# namespaces, and Debian's iproute2.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

if [[ "${INTEROP_NAMESPACE:-}" != own ]]; then
  flags=(--net)
  [[ "$(id -u)" == 0 ]] || flags+=(--map-root-user)
  INTEROP_NAMESPACE=own exec unshare "${flags[@]}" "$0" "$@"
fi
ip link set lo up

work="$(mktemp -d)"
broker=
finish() {
  if [[ -n "$broker" ]] && kill "$broker" 2>/dev/null; then wait "$broker" || true; fi
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
# The usual ports, whatever whoever calls this has asked for.
env -u BASALTMQ_HTTP_PORT "$root/bin/basaltmq" -D "$work/data" --io "${INTEROP_BACKEND:-auto}" 2>"$work/log" &
broker=$!
for _ in $(seq 100); do
  grep -q 'BasaltMQ is ready' "$work/log" && break
  if ! kill -0 "$broker" 2>/dev/null; then
    echo "the broker did not start:" >&2
    cat "$work/log" >&2
    exit 1
  fi
  sleep 0.1
done
status=0
AMQP_URL=amqp://guest:guest@127.0.0.1:5672/ "$@" || status=$?
if ! kill -0 "$broker" 2>/dev/null; then
  echo "the broker died" >&2
  status=1
fi
if [[ "$status" != 0 ]]; then
  echo "the broker's log:" >&2
  tail -n 30 "$work/log" >&2
fi
exit "$status"
