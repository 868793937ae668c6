#!/usr/bin/env bash
# Installs the package that its argument names, runs the broker as its user on the
# default ports of a network of its own, uses it, and removes and purges the
# package. As root, on a machine that may have it; nothing is left behind.
set -euo pipefail
deb=$(realpath "$1")
if [ -z "${IN_NAMESPACE:-}" ]; then
	if dpkg-query -s basaltmq >/dev/null 2>&1 || [ -e /var/lib/basaltmq ] || [ -e /etc/basaltmq ]; then
		echo "check-deb: BasaltMQ, or something of it, is on this machine already: this check would remove it" >&2
		exit 1
	fi
	exec env IN_NAMESPACE=1 unshare --net "$0" "$deb"
fi
ip link set lo up 2>/dev/null || true

broker=
cleanup() {
	[ -z "$broker" ] || kill -9 $(pgrep -P "$broker") "$broker" 2>/dev/null || true
	dpkg --purge basaltmq >/dev/null 2>&1 || true
}
trap cleanup EXIT
fail() { echo "check-deb: $*" >&2; exit 1; }
step() { echo "check-deb: $*"; }

step "install $(basename "$deb")"
dpkg -i "$deb" >/dev/null
[ "$(stat -c '%U %a' /var/lib/basaltmq)" = "basaltmq 750" ] || fail "the data directory is $(stat -c '%U %a' /var/lib/basaltmq)"
[ "$(stat -c '%U:%G %a' /etc/basaltmq/basaltmq.toml)" = "root:basaltmq 640" ] || fail "the configuration is $(stat -c '%U:%G %a' /etc/basaltmq/basaltmq.toml)"
basaltmq --check
if command -v systemd-analyze >/dev/null; then
	# Warnings of units that are not ours do not count.
	! systemd-analyze verify /usr/lib/systemd/system/basaltmq.service /usr/lib/systemd/system/basaltmq-*.socket 2>&1 | grep basaltmq | grep -v "Command 'man" || fail "the units have mistakes"
fi

log=/var/lib/basaltmq/check.log
start() {
	runuser -u basaltmq -- /usr/bin/basaltmq 2>>"$log" &
	broker=$!
	runuser -u basaltmq -- basaltmqctl await_startup -D /var/lib/basaltmq >/dev/null || { cat "$log" >&2; fail "the broker does not start"; }
}
# The number of the broker itself, not of runuser.
stop() {
	kill -TERM "$(pgrep -P "$broker" -x basaltmq || echo "$broker")"
	wait "$broker" || fail "the broker ended with $?"
	broker=
}
if [ -d /run/systemd/system ]; then
	systemctl stop basaltmq.service # it is in another network
fi

step "run as its user, publish and consume"
start
basaltmqctl status >/dev/null
basaltmqctl health >/dev/null
amqp-declare-queue -q orders -d >/dev/null
amqp-publish -r orders -p -b "order 1"
stop
start
[ "$(amqp-get -q orders)" = "order 1" ] || fail "the message has not come back after a restart"
! runuser -u nobody -- basaltmqctl status >/dev/null 2>&1 || fail "anybody may use the control socket"

step "upgrade to itself, with a changed configuration"
sed -i 's/^#drain_timeout = .*/drain_timeout = "7s"/' /etc/basaltmq/basaltmq.toml
dpkg -i --force-confold "$deb" >/dev/null
grep -q '^drain_timeout = "7s"' /etc/basaltmq/basaltmq.toml || fail "the upgrade has changed the configuration"
basaltmqctl reload | grep -q "taken over: drain_timeout" || fail "the reload took nothing over"
stop

step "remove"
dpkg -r basaltmq >/dev/null
[ -d /var/lib/basaltmq/journal ] || fail "removing has taken the data"
[ ! -e /usr/bin/basaltmq ] || fail "the program is still there"
step "purge"
dpkg -P basaltmq >/dev/null
for left in /var/lib/basaltmq /var/log/basaltmq /etc/basaltmq /usr/share/doc/basaltmq; do
	[ ! -e "$left" ] || fail "$left is still there"
done
! getent passwd basaltmq >/dev/null || fail "the user is still there"
trap - EXIT
step "good"
