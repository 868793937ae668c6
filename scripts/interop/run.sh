#!/usr/bin/env bash
# Runs the interop suites against the broker at $AMQP_URL: run.sh [SUITE…]
# (default: all), and amqp-client against its WebSocket at $AMQP_WS_URL. Installs nothing; see install.sh. amqp091, rabbithole, openapi and
# rabbitmqadmin start a broker of their own (with-broker.sh). INTEROP_JOBS suites run at a
# time (default 1). Each writes its results to $INTEROP_RESULTS (a directory;
# default: a temporary one), which scores then judges, unless INTEROP_JUDGE=no.
# A suite's output is shown when it fails (VERBOSE=1: always).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
export AMQP_URL="${AMQP_URL:-amqp://guest:guest@127.0.0.1:5672/}"
export AMQP_WS_URL="${AMQP_WS_URL:-ws://127.0.0.1:15672/}"
suite_seconds_max=420 # amqp091 takes 110 s, the others less than 60
all=(amqp091 celery java rabbithole rabbitmqadmin openapi access amqplib amqp-client pika php-amqplib bunny rabbitmq-c)

suites=("$@")
if [[ ${#suites[@]} -eq 0 ]]; then suites=("${all[@]}"); fi

results="${INTEROP_RESULTS:-}"
if [[ -z "$results" ]]; then
  results="$(mktemp -d)"
  trap 'rm -rf "$results"' EXIT
fi
mkdir -p "$results"

# run_suite SUITE COMMAND…   leaves SUITE.tsv and SUITE.log
run_suite() {
  local suite="$1" status started=$SECONDS
  shift
  : >"$results/$suite.tsv"
  INTEROP_RESULTS="$results/$suite.tsv" timeout "$suite_seconds_max" "$@" >"$results/$suite.log" 2>&1
  status=$?
  printf '\nend\t%d\t%d\n' "$status" $((SECONDS - started)) >>"$results/$suite.tsv"
  if [[ -n "${VERBOSE:-}" ]]; then sed "s/^/[$suite] /" "$results/$suite.log"; fi
}

for suite in "${suites[@]}"; do
  case "$suite" in
    access) command=(access/run.sh) ;;
    amqp091) command=(amqp091/run.sh) ;;
    amqp-client) command=(node amqp-client/checks.js) ;;
    amqplib) command=(node amqplib/checks.js) ;;
    bunny) command=(/usr/bin/ruby bunny/checks.rb) ;;
    celery) command=(/usr/bin/python3 -B celery/checks.py) ;;
    java) command=(java/run.sh) ;;
    php-amqplib) command=(/usr/bin/php php-amqplib/checks.php) ;;
    pika) command=(/usr/bin/python3 -B pika/checks.py) ;;
    openapi) command=(openapi/run.sh) ;;
    rabbithole) command=(rabbithole/run.sh) ;;
    rabbitmqadmin) command=(rabbitmqadmin/run.sh) ;;
    rabbitmq-c) command=(rabbitmq-c/checks.sh) ;;
    *)
      echo "run.sh: no such suite: $suite (there are ${all[*]})" >&2
      exit 2
      ;;
  esac
  while [[ $(jobs -rp | wc -l) -ge ${INTEROP_JOBS:-1} ]]; do wait -n; done
  run_suite "$suite" "${command[@]}" &
done
wait

[[ "${INTEROP_JUDGE:-}" != no ]] || exit 0
(cd ../.. && go run ./scripts/interop/scores check "$results")
