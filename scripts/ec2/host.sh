#!/usr/bin/env bash
# Runs on the instances; ec2.sh copies it there and calls it.
#
#   host.sh [--dry-run] tune              kernel and network settings (root)
#   host.sh [--dry-run] disk DEVICE       XFS on the data volume, mounted on /data (root)
#   host.sh [--dry-run] broker ADDRESS FLAGS…   a fresh broker on an empty directory
#   host.sh [--dry-run] sample FILE       what the broker has used so far
#   host.sh [--dry-run] stop              stops the broker
set -euo pipefail

DRY=0
PID_FILE=broker.pid
LOG=broker.log
DATA=/data/basaltmq

fail() {
	echo "host.sh: $*" >&2
	exit 1
}

run() {
	if [ "$DRY" = 1 ]; then
		printf '%q ' "$@" | sed 's/ $//'
		echo
	else
		"$@"
	fi
}

# tune: ports and queues for many connections, buffers for a fast network with
# some latency, and no stop of the clock speed where there is a governor.
tune() {
	run sysctl -q -w net.core.somaxconn=4096 net.ipv4.tcp_max_syn_backlog=8192 \
		net.ipv4.ip_local_port_range="15000 65000" net.ipv4.tcp_tw_reuse=1 \
		net.core.rmem_max=16777216 net.core.wmem_max=16777216 \
		net.ipv4.tcp_rmem="4096 131072 16777216" net.ipv4.tcp_wmem="4096 65536 16777216" \
		fs.file-max=1000000 vm.swappiness=1
	local governor
	for governor in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do
		[ ! -w "$governor" ] || run sh -c "echo performance >$governor"
	done
}

# disk DEVICE: makes a file system only where there is none, so that a second
# call does no harm and a wrong name destroys nothing.
disk() {
	local device=$1
	if [ "$DRY" = 0 ]; then
		device=$(readlink -f "$device")
		[ -b "$device" ] || fail "$1 is not a block device: see lsblk, and whether the data volume is attached"
		if mountpoint -q /data; then
			return
		fi
		[ -z "$(blkid -o value -s TYPE "$device")" ] || fail "$device holds a file system already and will not be overwritten"
	fi
	run mkfs.xfs -q "$device"
	run mkdir -p /data
	run mount -o noatime "$device" /data
	run chown "${SUDO_USER:-$(id -un)}" /data
}

stop() {
	if [ "$DRY" = 1 ]; then
		run kill "<pid of $PID_FILE>"
		return
	fi
	[ -f "$PID_FILE" ] || return 0
	local pid
	pid=$(<"$PID_FILE")
	# A pid may be another process's by now.
	if [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$(readlink -f basaltmq)" ]; then
		kill "$pid"
		while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
	fi
	rm -f "$PID_FILE"
}

broker() {
	local address=$1
	shift
	stop
	run rm -rf "$DATA"
	if [ "$DRY" = 1 ]; then
		run ./basaltmq -D "$DATA" --bind "$address" "$@"
		return
	fi
	ulimit -n "$(ulimit -Hn)"
	nohup ./basaltmq -D "$DATA" --bind "$address" "$@" </dev/null >"$LOG" 2>&1 &
	echo $! >"$PID_FILE"
	local left=100
	until grep -q 'BasaltMQ is ready' "$LOG"; do
		if [ "$left" = 0 ] || ! kill -0 "$(<"$PID_FILE")" 2>/dev/null; then
			cat "$LOG" >&2
			fail "the broker did not get ready"
		fi
		left=$((left - 1))
		sleep 0.1
	done
	grep 'BasaltMQ is ready' "$LOG"
}

sample() {
	run mkdir -p "$(dirname "$1")"
	if [ "$DRY" = 1 ]; then
		run cat "/proc/<pid of $PID_FILE>/status" "/proc/<pid of $PID_FILE>/stat" "/proc/<pid of $PID_FILE>/io"
		return
	fi
	local pid
	pid=$(<"$PID_FILE")
	{
		grep 'BasaltMQ is ready' "$LOG"
		cat "/proc/$pid/status" "/proc/$pid/stat" "/proc/$pid/io"
	} >"$1"
}

if [ "${1:-}" = --dry-run ]; then
	DRY=1
	shift
fi
step=${1:-}
[ $# -eq 0 ] || shift
case $step:$# in
tune:0 | stop:0 | disk:1 | sample:1 | broker:[1-9]*) "$step" "$@" ;;
*) fail "usage: host.sh [--dry-run] tune|disk DEVICE|broker ADDRESS FLAGS…|sample FILE|stop" ;;
esac
