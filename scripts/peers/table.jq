# Renders the results of scripts/peers/rabbitmq.sh as Markdown. Each result is
# one broker's; the names of the loads are made from the options, so that a
# table says what was measured and not what a file was called.

def median: sort | if length == 0 then null elif length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def thousands: if . == null then "" else round | tostring | explode | reverse
  | [range(0; length) as $i | (if $i > 0 and $i % 3 == 0 then 44 else empty end), .[$i]] | reverse | implode end;
def mib: if . == null then "" else (. / 1048576 * 10 | round / 10 | tostring) + " MiB" end;
def ratio($a; $b): if $a == null or $b == null or $b == 0 then "" else $a / $b | if . < 0.1 then . * 1000 | round / 1000 else . * 100 | round / 100 end | tostring end;

# rows: the figures of one result, {load, figure, value, unit}.
def throughput_rows: .options as $o
  | ("\($o.size) B, \($o.publishers) publisher, \($o.consumers) consumer"
    + (if $o.consumers == 0 then "" elif $o.ack_every > 0 then ", acks of \($o.ack_every), prefetch \($o.prefetch)" else ", auto-ack" end)) as $load
  | {load: $load, figure: "published/s", value: .published_per_s, unit: "n"},
    (if $o.consumers > 0 then {load: $load, figure: "consumed/s", value: .consumed_per_s, unit: "n"} else empty end),
    {load: $load, figure: "broker CPU ns/message", value: .broker_cpu_ns_per_message, unit: "n"},
    {load: $load, figure: "RSS at most", value: .rss.max.vm_rss, unit: "b"};
def confirm_rows: .options.size as $size | .rows[]
  | "\($size) B persistent, \(.queues) queue(s), window \(.window)\(if (.channels // 0) > .queues then ", \(.channels) channels" else "" end)" as $load
  | {load: $load, figure: "confirmed/s", value: .confirmed_per_s, unit: "n"},
    {load: $load, figure: "p50 µs", value: .latency.p50_us, unit: "n"},
    {load: $load, figure: "p99 µs", value: .latency.p99_us, unit: "n"};
def backlog_rows: "backlog of \(.fill.messages) messages of \(.options.size) B" as $load
  | {load: $load, figure: "filled/s", value: .fill.messages_per_s, unit: "n"},
    {load: $load, figure: "drained/s", value: .drain.messages_per_s, unit: "n"},
    {load: $load, figure: "RSS, filled", value: .filled.memory.vm_rss, unit: "b"},
    {load: $load, figure: "on disk", value: .filled.disk.allocated_bytes, unit: "b"};
def rows: (.versions.broker_product) as $broker
  | (if .scenario == "throughput" then throughput_rows elif .scenario == "confirm" then confirm_rows elif .scenario == "backlog" then backlog_rows else empty end)
  | . + {broker: $broker};

map(select(.interrupted | not)) as $results
| ([$results[] | .versions | "\(.broker_product) \(.broker_version)"] | unique) as $brokers
| $results[0].environment as $e
| [$results[] | rows] as $all
| "# BasaltMQ and RabbitMQ, the same loads in one run",
  "",
  "Written by `scripts/peers/rabbitmq.sh`, not to be edited by hand: \($brokers | join(", ")), each on a fresh broker with default",
  "settings; load generator and broker share the machine. A figure is the median of its runs; the ratio is BasaltMQ's by",
  "RabbitMQ's; of latency, CPU, memory and disk less is better. Such a machine says little about another: mind the environment, and run it on yours.",
  "",
  "| environment | |",
  "|---|---|",
  "| CPU | \($e.cpu.model), \($e.cpu.cores) hardware threads\(if $e.cpu.hypervisor then ", virtual machine" else "" end) |",
  "| kernel | \($e.kernel), \($e.goarch) |",
  "| filesystem | \($e.filesystem) (\($e.mount_options)) |",
  ([$results[] | select(.versions.broker_product == "BasaltMQ") | .environment][0] // {} |
    "| BasaltMQ | commit \(.commit), \(.io_backend), durability of confirms \(.durability), \(.go_version) |"),
  "",
  "| load | figure | BasaltMQ | RabbitMQ | ratio | runs |",
  "|---|---|---:|---:|---:|---:|",
  ($all | reduce .[] as $r ([]; if any(.[]; .load == $r.load and .figure == $r.figure) then . else . + [$r] end)
    | .[] as $key
    | [$all[] | select(.load == $key.load and .figure == $key.figure)] as $same
    | ([$same[] | select(.broker == "BasaltMQ") | .value | values] | median) as $ours
    | ([$same[] | select(.broker == "RabbitMQ") | .value | values] | median) as $theirs
    | ([$same[] | select(.broker == "BasaltMQ")] | length) as $runs
    | (if $key.unit == "b" then [($ours | mib), ($theirs | mib)] else [($ours | thousands), ($theirs | thousands)] end) as $texts
    | "| \($key.load) | \($key.figure) | \($texts[0]) | \($texts[1]) | \(ratio($ours; $theirs)) | \($runs) |")
