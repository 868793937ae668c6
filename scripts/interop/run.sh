#!/usr/bin/env bash
# Runs the interop suites against the broker at $AMQP_URL: run.sh [SUITE…]
# (default: all of access amqp091 amqplib pika rabbitmq-c). Installs nothing; see install.sh.
# Prints a suite's output only when it fails (VERBOSE=1: always), then one summary
# line per suite, then the totals as "N passed, N failed, N skipped".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
export AMQP_URL="${AMQP_URL:-amqp://guest:guest@127.0.0.1:5672/}"
suite_seconds_max=180 # a normal run of a suite takes less than 60 s

suites=("$@")
if [[ ${#suites[@]} -eq 0 ]]; then suites=(access amqp091 amqplib pika rabbitmq-c); fi

output="$(mktemp)"
trap 'rm -f "$output"' EXIT
total_passed=0
total_failed=0
total_skipped=0
summaries=()
for suite in "${suites[@]}"; do
  case "$suite" in
    access) command=(access/run.sh) ;;
    amqp091) command=(amqp091/run.sh) ;;
    amqplib) command=(node amqplib/checks.js) ;;
    pika) command=(/usr/bin/python3 -B pika/checks.py) ;;
    rabbitmq-c) command=(rabbitmq-c/checks.sh) ;;
    *)
      echo "run.sh: no such suite: $suite (there are access, amqp091, amqplib, pika, rabbitmq-c)" >&2
      exit 2
      ;;
  esac
  started=$SECONDS
  timeout "$suite_seconds_max" "${command[@]}" >"$output" 2>&1
  status=$?
  counts="$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$output" | tail -n 1)"
  passed=0 failed=0 skipped=0
  if [[ "$counts" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
    passed="${BASH_REMATCH[1]}" failed="${BASH_REMATCH[2]}" skipped="${BASH_REMATCH[4]:-0}"
  fi
  verdict=ok
  if [[ $status -ne 0 ]]; then
    verdict="FAILED (status $status)"
    if [[ $status -eq 124 ]]; then verdict="FAILED (longer than $suite_seconds_max s)"; fi
    if [[ $failed -eq 0 ]]; then failed=1; fi
  fi
  if [[ $status -ne 0 || -n "${VERBOSE:-}" ]]; then sed "s/^/[$suite] /" "$output"; fi
  summaries+=("$(printf '%-11s %4d passed %3d failed %3d skipped  %3d s  %s' "$suite" "$passed" "$failed" "$skipped" $((SECONDS - started)) "$verdict")")
  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_skipped=$((total_skipped + skipped))
done
printf '%s\n' "${summaries[@]}"
echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
[[ $total_failed -eq 0 && $total_passed -gt 0 ]]
