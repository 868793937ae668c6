#!/usr/bin/env bash
# Measures BasaltMQ on two EC2 instances, a broker and a load host:
#
#   scripts/ec2/ec2.sh [--dry-run] up|setup|run|collect|down|all
#
#   up       key pair, security group, placement group, broker with a GP3 data
#            volume, load host; both end by themselves after EC2_HOURS
#   setup    builds for arm64, copies the programs, mkfs.xfs and mount of the
#            data volume, kernel and network tuning
#   run      the loads, from the load host against the broker, each on a fresh one
#   collect  copies the results into EC2_RESULTS
#   down     ends and deletes all that "up" made, also after an "up" that failed
#   all      these in order; "down" also when one of them fails
#
# --dry-run prints every command instead of running it. What was made is written
# to tmp/ec2/state line by line. Needs aws (configured), ssh, scp, go and git; the settings
# are below, each from the environment. README.md says what has been tried.
set -euo pipefail
cd "$(dirname "$0")/../.."
SELF=scripts/ec2/ec2.sh

REGION=${EC2_REGION:-eu-central-1}
TYPE=${EC2_TYPE:-c8g.large}
LOAD_TYPE=${EC2_LOAD_TYPE:-c8g.2xlarge} # must not be the limit
IMAGE=${EC2_IMAGE:-resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64}
LOGIN=${EC2_LOGIN:-ec2-user}
SSH_FROM=${EC2_SSH_FROM:-} # CIDR that may use ssh, required by "up"
DISK_GB=${EC2_DISK_GB:-100}
DISK_IOPS=${EC2_DISK_IOPS:-3000} # what GP3 has without paying for more
DISK_MBPS=${EC2_DISK_MBPS:-125}
HOURS=${EC2_HOURS:-3}
BROKER_FLAGS=${EC2_BROKER_FLAGS:-}
CREDENTIALS=${EC2_CREDENTIALS:-guest:guest}
ROUNDS=${EC2_ROUNDS:-3}
SECONDS_EACH=${EC2_SECONDS_EACH:-10}
BACKLOG=${EC2_BACKLOG:-100000000}
RESULTS=${EC2_RESULTS:-bench-results/ec2}

NAME=basaltmq-bench
WORK=tmp/ec2
STATE=$WORK/state
DRY=0

fail() {
	echo "ec2.sh: $*" >&2
	exit 1
}

# run COMMAND…: runs it, or prints it.
run() {
	if [ "$DRY" = 1 ]; then
		printf '%q ' "$@" | sed 's/ $//'
		echo
	else
		"$@"
	fi
}

# keep NAME COMMAND…: remembers what a command prints; of a dry run, its name.
keep() {
	local name=$1 value
	shift
	if [ "$DRY" = 1 ]; then
		run "$@"
		value="<$name>"
	else
		value=$("$@")
		case $value in '' | None) fail "$name: \"$*\" told nothing" ;; esac
		printf '%s=%q\n' "$name" "$value" >>"$STATE"
	fi
	printf -v "$name" '%s' "$value"
}

EC2=(aws --region "$REGION" ec2)

# ask NAME COMMAND…: keeps one word of EC2's answer, which --query chooses.
ask() {
	local name=$1
	shift
	keep "$name" "${EC2[@]}" "$@" --output text
}

# known NAME…: whether the state has them.
known() {
	local name
	for name in "$@"; do
		[ -n "${!name:-}" ] || return 1
	done
}

load_state() {
	if [ "$DRY" = 1 ]; then
		local name
		for name in KEY_NAME VPC SUBNET GROUP PLACEMENT BROKER LOAD BROKER_HOST LOAD_HOST BROKER_ADDRESS; do
			printf -v "$name" '%s' "<$name>"
		done
		return
	fi
	[ -f "$STATE" ] || fail "there is no $STATE: run \"ec2.sh up\" first"
	# shellcheck source=/dev/null
	. "$STATE"
}

check_up() {
	[ "$DRY" = 1 ] || [ ! -s "$STATE" ] || fail "$STATE is of another run: run \"ec2.sh down\" first"
	[ -n "$SSH_FROM" ] || fail "EC2_SSH_FROM must say who may use ssh, as 203.0.113.7/32"
}

up() {
	check_up
	run mkdir -p "$WORK"
	run rm -f "$WORK/key" "$WORK/key.pub"
	run ssh-keygen -q -t ed25519 -N '' -C "$NAME" -f "$WORK/key"
	ask KEY_NAME import-key-pair --key-name "$NAME-$$" --public-key-material "fileb://$WORK/key.pub" --query KeyName
	ask VPC describe-vpcs --filters Name=is-default,Values=true --query 'Vpcs[0].VpcId'
	ask SUBNET describe-subnets --filters "Name=vpc-id,Values=$VPC" Name=default-for-az,Values=true --query 'Subnets[0].SubnetId'
	ask GROUP create-security-group --group-name "$NAME-$$" --description "$NAME" --vpc-id "$VPC" --query GroupId
	run "${EC2[@]}" authorize-security-group-ingress --group-id "$GROUP" --protocol tcp --port 22 --cidr "$SSH_FROM"
	run "${EC2[@]}" authorize-security-group-ingress --group-id "$GROUP" --protocol tcp --port 5672 --source-group "$GROUP"
	# Side by side in one rack: the network is part of what is measured.
	ask PLACEMENT create-placement-group --group-name "$NAME-$$" --strategy cluster --query PlacementGroup.GroupName
	local data="[{\"DeviceName\":\"/dev/sdf\",\"Ebs\":{\"VolumeType\":\"gp3\",\"VolumeSize\":$DISK_GB,\"Iops\":$DISK_IOPS,\"Throughput\":$DISK_MBPS,\"DeleteOnTermination\":true}}]"
	instance BROKER "$TYPE" broker --block-device-mappings "$data"
	instance LOAD "$LOAD_TYPE" load
	run "${EC2[@]}" wait instance-status-ok --instance-ids "$BROKER" "$LOAD"
	ask BROKER_HOST describe-instances --instance-ids "$BROKER" --query 'Reservations[0].Instances[0].PublicIpAddress'
	ask BROKER_ADDRESS describe-instances --instance-ids "$BROKER" --query 'Reservations[0].Instances[0].PrivateIpAddress'
	ask LOAD_HOST describe-instances --instance-ids "$LOAD" --query 'Reservations[0].Instances[0].PublicIpAddress'
}

# instance NAME TYPE ROLE options…
instance() {
	local name=$1 type=$2 role=$3
	shift 3
	ask "$name" run-instances --image-id "$IMAGE" --instance-type "$type" --key-name "$KEY_NAME" \
		--subnet-id "$SUBNET" --security-group-ids "$GROUP" --placement "GroupName=$PLACEMENT" --associate-public-ip-address \
		--instance-initiated-shutdown-behavior terminate --user-data "#!/bin/sh
shutdown -h +$((HOURS * 60))" \
		--tag-specifications "ResourceType=instance,Tags=[{Key=Name,Value=$NAME-$role}]" "$@" --query 'Instances[0].InstanceId'
}

SSH_OPTIONS=(-i "$WORK/key" -o StrictHostKeyChecking=accept-new -o "UserKnownHostsFile=$WORK/known_hosts" -o ServerAliveInterval=30)

# on HOST COMMAND…: there, with its words as they are here.
on() {
	local host=$1 line
	shift
	printf -v line '%q ' "$@"
	run ssh "${SSH_OPTIONS[@]}" "$LOGIN@$host" "${line% }"
}

copy() { run scp -q "${SSH_OPTIONS[@]}" "$@"; }

setup() {
	local commit
	commit=$(git describe --tags --always --dirty)
	case $commit in *-dirty) [ "$DRY" = 1 ] || fail "the tree has changes that are not committed: a result would name the wrong commit" ;; esac
	run mkdir -p "$WORK/bin"
	run env CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -trimpath -tags uring -o "$WORK/bin/" \
		-ldflags "-checklinkname=0 -s -w -X main.version=$commit -X github.com/basaltmq/basaltmq/perf/scenario.Version=$commit" \
		./cmd/basaltmq ./cmd/basaltmqperf
	copy "$WORK/bin/basaltmq" "$WORK/bin/basaltmqperf" scripts/ec2/host.sh "$LOGIN@$BROKER_HOST:"
	copy "$WORK/bin/basaltmqperf" scripts/ec2/host.sh "$LOGIN@$LOAD_HOST:"
	on "$BROKER_HOST" sudo ./host.sh tune
	on "$LOAD_HOST" sudo ./host.sh tune
	on "$BROKER_HOST" sudo ./host.sh disk /dev/sdf
}

# fresh_broker: on an empty directory; FACTS tell the tool about it.
fresh_broker() {
	local -a flags
	local ready
	read -ra flags <<<"$BROKER_FLAGS"
	if [ "$DRY" = 1 ]; then
		on "$BROKER_HOST" ./host.sh broker "$BROKER_ADDRESS" "${flags[@]}"
		ready='sockets=<sockets> files=<files> durability=<durability>'
	else
		ready=$(on "$BROKER_HOST" ./host.sh broker "$BROKER_ADDRESS" "${flags[@]}")
	fi
	FACTS=(--commit "$COMMIT" --durability-level "$(field durability)"
		--io-backend "sockets: $(field sockets), files: $(field files), on another host")
}

# field NAME: of the broker's start line.
field() { sed -nE "s/.* $1=(\"[^\"]*\"|[^ ]+).*/\1/p" <<<" $ready"; }

# measure FIGURE SCENARIO options…: on a fresh broker, from the load host.
measure() {
	local figure=$1 scenario=$2
	shift 2
	fresh_broker
	on "$LOAD_HOST" ./basaltmqperf "$scenario" --uri "amqp://$CREDENTIALS@$BROKER_ADDRESS:5672/" "${FACTS[@]}" \
		-q --json "results/$STAMP-$figure.json" "$@"
	# What the load host can't see: the broker's memory, CPU time and writes.
	on "$BROKER_HOST" ./host.sh sample "results/$STAMP-$figure.broker.txt"
}

measure_all() {
	COMMIT=$(git rev-parse --short=12 HEAD)
	STAMP=$(date -u +%Y-%m-%d)-$COMMIT
	on "$LOAD_HOST" mkdir -p results
	on "$BROKER_HOST" mkdir -p results
	fresh_broker
	on "$LOAD_HOST" ./basaltmqperf throughput --uri "amqp://$CREDENTIALS@$BROKER_ADDRESS:5672/" -q -x 1 -y 1 -C 1 --warmup 0 ||
		fail "the load host can't use the broker; guest may come from loopback only: name a user in EC2_CREDENTIALS, and in EC2_BROKER_FLAGS what makes the broker have it"
	# The yardsticks of the broker's machine and disk, and with them its environment.
	on "$BROKER_HOST" ./host.sh stop
	on "$BROKER_HOST" ./basaltmqperf calibrate --data-dir /data --commit "$COMMIT" -z 2 --disk-time 2 --json "results/$STAMP-yardsticks-before.json"
	local round
	for round in $(seq "$ROUNDS"); do
		measure "end-to-end-16B-run$round" throughput -x 1 -y 1 -s 16 -z "$SECONDS_EACH"
		measure "end-to-end-1KiB-run$round" throughput -x 1 -y 1 -s 1KiB -z "$SECONDS_EACH"
		measure "acks-100-16B-run$round" throughput -x 1 -y 1 -s 16 -a 100 -P 1000 -z "$SECONDS_EACH"
		measure "publish-only-16B-run$round" throughput -x 1 -y 0 -s 16 -z "$SECONDS_EACH"
		measure "publish-only-1KiB-run$round" throughput -x 1 -y 0 -s 1KiB -z "$SECONDS_EACH"
		measure "latency-250k-run$round" throughput -x 1 -y 1 -s 16 -r 250k -l -z "$SECONDS_EACH"
		measure "confirm-run$round" confirm -z "$SECONDS_EACH"
	done
	measure "backlog-$BACKLOG" backlog -C "$BACKLOG"
	on "$BROKER_HOST" ./host.sh stop
	on "$BROKER_HOST" ./basaltmqperf calibrate --data-dir /data --commit "$COMMIT" -z 2 --disk-time 2 --json "results/$STAMP-yardsticks-after.json"
}

collect() {
	run mkdir -p "$RESULTS/broker-host" "$RESULTS/load-host"
	copy -r "$LOGIN@$BROKER_HOST:results/." "$RESULTS/broker-host"
	copy -r "$LOGIN@$LOAD_HOST:results/." "$RESULTS/load-host"
}

# down goes on when something can't be deleted, and then keeps the state.
down() {
	local failed=0 instances=()
	try() { run "$@" || failed=1; }
	known BROKER && instances+=("$BROKER")
	known LOAD && instances+=("$LOAD")
	if [ "${#instances[@]}" -gt 0 ]; then
		try "${EC2[@]}" terminate-instances --instance-ids "${instances[@]}"
		try "${EC2[@]}" wait instance-terminated --instance-ids "${instances[@]}"
	fi
	known PLACEMENT && try "${EC2[@]}" delete-placement-group --group-name "$PLACEMENT"
	known GROUP && try "${EC2[@]}" delete-security-group --group-id "$GROUP"
	known KEY_NAME && try "${EC2[@]}" delete-key-pair --key-name "$KEY_NAME"
	[ "$failed" = 0 ] || fail "something is left and costs money: see above, and run \"ec2.sh down\" again"
	run rm -rf "$WORK"
}

if [ "${1:-}" = --dry-run ]; then
	DRY=1
	shift
fi
[ $# = 1 ] || fail "usage: ec2.sh [--dry-run] up|setup|run|collect|down|all"
case $1 in
up) up ;;
setup)
	load_state
	setup
	;;
run)
	load_state
	measure_all
	;;
collect)
	load_state
	collect
	;;
down)
	load_state
	down
	;;
all)
	check_up # or "down" would end the machines of another run
	trap 'status=130' INT TERM
	dry=()
	[ "$DRY" = 0 ] || dry=(--dry-run)
	status=0
	for part in up setup run collect; do
		[ "$status" = 0 ] || break
		"$SELF" "${dry[@]}" "$part" || {
			status=$?
			break
		}
	done
	"$SELF" "${dry[@]}" down || status=$?
	exit "$status"
	;;
*) fail "there is no step $1: up, setup, run, collect, down or all" ;;
esac
