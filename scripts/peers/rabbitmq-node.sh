# shellcheck shell=bash
# Sourced by scripts that need a RabbitMQ node: starts Debian's rabbitmq-server
# on loopback, with ports, node name, data, log, cookie and epmd of its own, so
# that a RabbitMQ service of the machine is neither touched nor asked.
#
#   rabbitmq_install   installs the Debian package where it is missing (root)
#   rabbitmq_start     on an empty directory; sets RABBITMQ_PID, RABBITMQ_DIR,
#                      RABBITMQ_PORT, RABBITMQ_VERSION; stops it when the script
#                      ends
#   rabbitmq_stop

RABBITMQ_SCRIPT=/usr/lib/rabbitmq/bin/rabbitmq-server
RABBITMQ_PID=
RABBITMQ_EPMD_PID=
RABBITMQ_DIR=

# The package would start a service when it is installed; policy-rc.d, which
# Debian asks first, says no for the time being.
rabbitmq_install() {
	[ -x "$RABBITMQ_SCRIPT" ] && return 0
	local policy=/usr/sbin/policy-rc.d ours=0 status=0
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
		ours=1
	fi
	{
		apt-get update -qq &&
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends rabbitmq-server >/dev/null
	} || status=$?
	[ "$ours" = 0 ] || rm -f "$policy"
	return "$status"
}

# listening PORT: whether something accepts connections there.
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port: one on which nothing listens, below those that the kernel gives to
# clients.
free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 10000))
		listening "$port" || break
	done
	echo "$port"
}

# await SECONDS PID COMMAND…: until the command succeeds; fails when the process
# has ended or the time is up.
await() {
	local left=$(($1 * 10)) pid=$2
	shift 2
	until "$@"; do
		if [ "$left" = 0 ] || ! kill -0 "$pid" 2>/dev/null; then
			return 1
		fi
		left=$((left - 1))
		sleep 0.1
	done
}

rabbitmq_ready() { grep -q 'Server startup complete' "$RABBITMQ_DIR/log" && listening "$RABBITMQ_PORT"; }

rabbitmq_start() {
	local epmd_port dist_port
	RABBITMQ_DIR=$(mktemp -d)
	trap 'rabbitmq_stop' EXIT
	trap 'exit 130' INT TERM
	mkdir "$RABBITMQ_DIR/data" "$RABBITMQ_DIR/home"
	echo '[].' >"$RABBITMQ_DIR/enabled_plugins"
	echo '[].' >"$RABBITMQ_DIR/advanced.config"
	: >"$RABBITMQ_DIR/rabbitmq.conf"
	: >"$RABBITMQ_DIR/env.conf"

	epmd_port=$(free_port)
	env -i PATH="$PATH" epmd -port "$epmd_port" -address 127.0.0.1 >"$RABBITMQ_DIR/epmd.log" 2>&1 &
	RABBITMQ_EPMD_PID=$!
	await 10 "$RABBITMQ_EPMD_PID" listening "$epmd_port" || {
		echo "epmd did not get ready:" >&2
		cat "$RABBITMQ_DIR/epmd.log" >&2
		return 1
	}

	RABBITMQ_PORT=$(free_port)
	dist_port=$(free_port)
	while [ "$dist_port" = "$RABBITMQ_PORT" ]; do dist_port=$(free_port); done
	# RUNNING_UNDER_SYSTEMD makes the script become the Erlang machine instead
	# of watching over it: the pid is that of the broker.
	env -i PATH="$PATH" HOME="$RABBITMQ_DIR/home" LANG=C.UTF-8 \
		RUNNING_UNDER_SYSTEMD=1 \
		ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT="$epmd_port" \
		RABBITMQ_NODENAME="peer-$RABBITMQ_PORT@localhost" \
		RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$RABBITMQ_PORT" RABBITMQ_DIST_PORT="$dist_port" \
		RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}' \
		RABBITMQ_MNESIA_BASE="$RABBITMQ_DIR/data" RABBITMQ_LOG_BASE="$RABBITMQ_DIR" RABBITMQ_LOGS=- \
		RABBITMQ_SCHEMA_DIR="$RABBITMQ_DIR/schema" RABBITMQ_GENERATED_CONFIG_DIR="$RABBITMQ_DIR/config" \
		RABBITMQ_CONF_ENV_FILE="$RABBITMQ_DIR/env.conf" RABBITMQ_CONFIG_FILE="$RABBITMQ_DIR/rabbitmq.conf" \
		RABBITMQ_ADVANCED_CONFIG_FILE="$RABBITMQ_DIR/advanced.config" \
		RABBITMQ_ENABLED_PLUGINS_FILE="$RABBITMQ_DIR/enabled_plugins" RABBITMQ_PID_FILE="$RABBITMQ_DIR/pid" \
		"$RABBITMQ_SCRIPT" </dev/null >"$RABBITMQ_DIR/log" 2>&1 &
	RABBITMQ_PID=$!
	await 60 "$RABBITMQ_PID" rabbitmq_ready || {
		echo "RabbitMQ did not get ready:" >&2
		cat "$RABBITMQ_DIR/log" >&2
		return 1
	}
	# shellcheck disable=SC2034 # for the caller
	RABBITMQ_VERSION=$(sed -nE 's/.*Starting RabbitMQ ([0-9.]+) on.*/\1/p' "$RABBITMQ_DIR/log" | head -n 1)
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# rabbitmq_end PID: asks a process to end, and makes it after 30 seconds.
rabbitmq_end() {
	[ -n "$1" ] || return 0
	if kill "$1" 2>/dev/null; then
		await 30 "$1" gone "$1" || gone "$1" || kill -KILL "$1" 2>/dev/null || true
	fi
	wait "$1" 2>/dev/null || true
}

rabbitmq_stop() {
	rabbitmq_end "$RABBITMQ_PID"
	RABBITMQ_PID=
	rabbitmq_end "$RABBITMQ_EPMD_PID"
	RABBITMQ_EPMD_PID=
	[ -z "$RABBITMQ_DIR" ] || rm -rf "$RABBITMQ_DIR"
	RABBITMQ_DIR=
}
