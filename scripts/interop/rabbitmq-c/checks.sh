#!/usr/bin/env bash
# Checks the broker at $AMQP_URL with the command-line tools of rabbitmq-c
# (amqp-declare-queue, amqp-delete-queue, amqp-publish, amqp-get, amqp-consume).
# Prints one line per failure (VERBOSE=1: per check) and "N passed, N failed".
set -uo pipefail

url="${AMQP_URL:-amqp://guest:guest@127.0.0.1:5672/}"
url="${url%/}" # to rabbitmq-c a trailing slash means the vhost with the empty name
run="interop-rabbitmq-c-$$-${RANDOM}"
work="$(mktemp -d)"
limit=10 # seconds, for each call of a tool
passed=0
failed=0
queues=()

finish() {
  local queue
  for queue in "${queues[@]}"; do
    timeout "$limit" amqp-delete-queue --url "$url" --queue "$queue" >/dev/null 2>&1
  done
  rm -rf "$work"
}
trap finish EXIT

# report FIELD…   a line for scores (scores/doc.go), if it wants one
report() {
  [[ -n "${INTEROP_RESULTS:-}" ]] || return 0
  local IFS=$'\t'
  printf '%s\n' "$*" >>"$INTEROP_RESULTS"
}
report client "rabbitmq-c $(dpkg-query --show --showformat '${Version}' amqp-tools 2>/dev/null || echo of unknown version)"

# verdict NAME EXPECTED GOT
verdict() {
  if [[ "$2" == "$3" ]]; then
    passed=$((passed + 1))
    report pass "$1"
    if [[ -n "${VERBOSE:-}" ]]; then echo "ok   $1"; fi
  else
    failed=$((failed + 1))
    report fail "$1" "$(printf 'expected %q, got %q' "$2" "$3")"
    printf 'FAIL %s: expected %q, got %q\n' "$1" "$2" "$3"
  fi
}

# succeeds NAME OUTPUT TOOL ARGUMENT…   exit status 0 and exactly this standard output
succeeds() {
  local name="$1" output="$2" tool="$3" got status
  shift 3
  got="$(timeout "$limit" "$tool" --url "$url" "$@" 2>"$work/stderr"; echo "status $?")"
  status="${got##*status }"
  got="${got%status *}"
  got="${got%$'\n'}"
  if [[ "$status" != 0 ]]; then got="status $status: $got$(cat "$work/stderr")"; fi
  verdict "$name" "$output" "$got"
}

# fails NAME TEXT TOOL ARGUMENT…   exit status 1 and this text in standard error
fails() { fails_at "$1" "$2" "$url" "${@:3}"; }

# fails_at NAME TEXT URL TOOL ARGUMENT…
fails_at() {
  local name="$1" text="$2" target="$3" tool="$4" status got
  shift 4
  timeout "$limit" "$tool" --url "$target" "$@" >"$work/stdout" 2>"$work/stderr"
  status=$?
  got="$(cat "$work/stderr")"
  if [[ "$status" == 1 && "$got" == *"$text"* ]]; then got="$text"; else got="status $status: $got"; fi
  verdict "$name" "$text" "$got"
}

# new_queue VARIABLE [OPTION…]   declares a queue with a unique name
new_queue() {
  local -n variable="$1"
  variable="$run-${#queues[@]}"
  queues+=("$variable")
  succeeds "declare-queue: declare $1 ${*:2}" "$variable" amqp-declare-queue --queue "$variable" "${@:2}"
}

# --- connection
queues+=("$run-first")
if ! timeout "$limit" amqp-declare-queue --url "$url" --queue "$run-first" >/dev/null 2>"$work/stderr"; then
  echo "FAIL connection: expected a broker at \$AMQP_URL, got $(cat "$work/stderr")"
  report fail 'connection: there is a broker' "$(tr '\n\t' '  ' <"$work/stderr")"
  echo '0 passed, 1 failed'
  exit 1
fi
with_password="${url#amqp://}"
host="${with_password##*@}"
fails_at 'connection: wrong password is 403' \
  'server connection error 403, message: ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN' \
  "amqp://guest:not-the-password@${host%%/*}" amqp-declare-queue --queue "$run"
fails_at 'connection: unknown vhost is 530' 'server connection error 530, message: NOT_ALLOWED - vhost no-such-vhost not found' \
  "${url%%"${host}"}${host%%/*}/no-such-vhost" amqp-declare-queue --queue "$run"

# --- declare
new_queue transient
new_queue durable --durable
succeeds 'declare-queue: again with equal properties' "$durable" amqp-declare-queue --queue "$durable" --durable
fails 'declare-queue: durable differs is 406' \
  "server channel error 406, message: PRECONDITION_FAILED - inequivalent arg 'durable' for queue '$transient' in vhost '/': received 'true' but current is 'false'" \
  amqp-declare-queue --queue "$transient" --durable
fails 'declare-queue: reserved name is 403' "403, message: ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'" \
  amqp-declare-queue --queue amq.x
generated="$(timeout "$limit" amqp-declare-queue --url "$url" --queue '')"
queues+=("$generated")
verdict 'declare-queue: server-named' 'amq.gen-' "${generated:0:8}"

# --- publish and get
new_queue queue
timeout "$limit" amqp-get --url "$url" --queue "$queue" >/dev/null
verdict 'get: an empty queue is status 2' 2 $?
fails 'get: a missing queue is 404' "404, message: NOT_FOUND - no queue '$run' in vhost '/'" amqp-get --queue "$run"
succeeds 'publish: a body argument' '' amqp-publish --routing-key "$queue" --body 'hello'
succeeds 'get: that body' 'hello' amqp-get --queue "$queue"
succeeds 'publish: an empty body' '' amqp-publish --routing-key "$queue" --body ''
succeeds 'get: the empty body' '' amqp-get --queue "$queue"
succeeds 'publish: all the properties the tool has' '' amqp-publish --routing-key "$queue" --persistent --content-type text/plain \
  --content-encoding utf-8 --reply-to answers --header 'one: 1' --header 'two: 2' --body 'with properties'
succeeds 'get: with properties' 'with properties' amqp-get --queue "$queue"
succeeds 'publish: persistent to a durable queue' '' amqp-publish --routing-key "$durable" --persistent --body 'kept'
succeeds 'get: from a durable queue' 'kept' amqp-get --queue "$durable"
printf 'first\nsecond\nthird\n' | timeout "$limit" amqp-publish --url "$url" --routing-key "$queue" --line-buffered
verdict 'publish: one message per line' 0 $?
for word in first second third; do
  succeeds "get: $word in order" "$word" amqp-get --queue "$queue"
done
fails 'publish: a missing exchange is 404' "404, message: NOT_FOUND - no exchange '$run' in vhost '/'" \
  amqp-publish --exchange "$run" --routing-key x --body x
succeeds 'publish: unroutable messages are dropped' '' amqp-publish --exchange amq.direct --routing-key "$run" --body x
for size in 1 131063 131064 131065 1048576 10485760; do
  head -c "$size" /dev/urandom >"$work/sent"
  timeout "$limit" amqp-publish --url "$url" --routing-key "$queue" <"$work/sent"
  timeout "$limit" amqp-get --url "$url" --queue "$queue" >"$work/got"
  verdict "publish, get: a binary body of $size bytes" "$(sha256sum <"$work/sent")" "$(sha256sum <"$work/got")"
done

# --- consume
for word in 1 2 3 4 5; do
  timeout "$limit" amqp-publish --url "$url" --routing-key "$queue" --body "$word"
done
succeeds 'consume: two of five, in order' '12' amqp-consume --queue "$queue" --count 2 --prefetch-count 1 cat
succeeds 'consume: no-ack and a count leave nothing behind in flight' '3' amqp-consume --queue "$queue" --count 1 --prefetch-count 1 cat
succeeds 'consume: unacked prefetched messages went back in order' '45' amqp-consume --queue "$queue" --count 2 --prefetch-count 10 cat
timeout "$limit" amqp-get --url "$url" --queue "$queue" >/dev/null
verdict 'consume: acked messages are gone' 2 $?
timeout "$limit" amqp-publish --url "$url" --routing-key "$queue" --body 'again'
succeeds 'consume: --no-ack' 'again' amqp-consume --queue "$queue" --count 1 --no-ack cat
fails 'consume: a missing queue is 404' "404, message: NOT_FOUND - no queue '$run' in vhost '/'" amqp-consume --queue "$run" --count 1 cat

# start_consumer OPTION…   a consumer in the background; waits until its queue is known
start_consumer() {
  timeout 30 amqp-consume --url "$url" "$@" cat >"$work/consumed" 2>"$work/consumer" &
  consumer=$!
}

# wait_for_text FILE TEXT
wait_for_text() {
  local i
  for ((i = 0; i < 200; i++)); do
    if grep -q "$2" "$1" 2>/dev/null; then return 0; fi
    sleep 0.05
  done
  echo "     timed out waiting for '$2' in $1"
}

# until_consumed TEXT PUBLISH-OPTION…   publishes until the consumer, which may not be bound yet, prints TEXT
until_consumed() {
  local text="$1" i
  shift
  for ((i = 0; i < 200; i++)); do
    timeout "$limit" amqp-publish --url "$url" "$@" --body "$text"
    if grep -q "$text" "$work/consumed"; then return 0; fi
    sleep 0.05
  done
  return 1
}

start_consumer --exchange amq.topic --routing-key "$run.#" --exclusive --no-ack
wait_for_text "$work/consumer" 'amq.gen-'
exclusive="$(sed -n 's/.*\(amq\.gen-[A-Za-z0-9_-]*\).*/\1/p' "$work/consumer")"
until_consumed ready --exchange amq.topic --routing-key "$run"
verdict 'consume: an exclusive server-named queue bound to amq.topic' 0 $?
fails 'exclusive: another connection gets 405' "405, message: RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '$exclusive'" \
  amqp-get --queue "$exclusive"
timeout "$limit" amqp-publish --url "$url" --exchange amq.topic --routing-key "other.$run.a" --body 'not matched'
until_consumed matched --exchange amq.topic --routing-key "$run.a.b"
verdict 'consume: # matches further words' 0 $?
verdict 'consume: other keys are not routed' 0 "$(grep -c 'not matched' "$work/consumed")"
kill "$consumer" && wait "$consumer" 2>/dev/null
gone=no
for ((i = 0; i < 200; i++)); do
  timeout "$limit" amqp-get --url "$url" --queue "$exclusive" >/dev/null 2>"$work/stderr"
  if grep -q 'error 404' "$work/stderr"; then gone=yes; break; fi
  sleep 0.05
done
verdict 'exclusive: the queue goes with its dead connection' yes "$gone"

new_queue idle
start_consumer --queue "$idle" --heartbeat 1 --count 1
sleep 3.5 # the time itself is what is checked
timeout "$limit" amqp-publish --url "$url" --routing-key "$idle" --body 'alive'
wait_for_text "$work/consumed" alive
verdict 'heartbeat: a consumer idle with heartbeat 1 s stays connected' 'alive' "$(cat "$work/consumed")"
wait "$consumer"
verdict 'consume: ends by itself after --count messages' 0 $?

start_consumer --queue "$idle" --heartbeat 1
until_consumed ready --routing-key "$idle"
fails 'delete-queue: --if-unused with a consumer is 406' "406, message: PRECONDITION_FAILED - queue '$idle' in vhost '/' in use" \
  amqp-delete-queue --queue "$idle" --if-unused
kill "$consumer" && wait "$consumer" 2>/dev/null

# --- delete
new_queue doomed
timeout "$limit" amqp-publish --url "$url" --routing-key "$doomed" --body x
timeout "$limit" amqp-publish --url "$url" --routing-key "$doomed" --body y
fails 'delete-queue: --if-empty with messages is 406' "406, message: PRECONDITION_FAILED - queue '$doomed' in vhost '/' not empty" \
  amqp-delete-queue --queue "$doomed" --if-empty
succeeds 'delete-queue: prints the number of messages' 2 amqp-delete-queue --queue "$doomed" --if-unused
succeeds 'delete-queue: a missing queue counts 0' 0 amqp-delete-queue --queue "$doomed"
fails 'delete-queue: the queue is gone' "404, message: NOT_FOUND - no queue '$doomed' in vhost '/'" amqp-get --queue "$doomed"

report done
echo "$passed passed, $failed failed"
[[ "$passed" -gt 0 && "$failed" -eq 0 ]]
