#!/usr/bin/env bash
# Installs what the interop suites need: the clients as Debian packages, with their
# languages where those are missing; amqplib and amqp-client by npm; the Go modules of amqp091, access, openapi and rabbithole;
# the script rabbitmqadmin.
# Quiet and quick when all is there. Debian packages need root.
#
# Java: where there is no JDK, the runtime and Debian's ecj (50 MB) do, instead of
# a JDK (115 MB).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

log="$(mktemp)"
trap 'rm -f "$log"' EXIT

# quietly COMMAND…   shows the output only if the command fails
quietly() {
  if ! "$@" >"$log" 2>&1; then
    echo "install.sh: failed: $*" >&2
    cat "$log" >&2
    exit 1
  fi
}

# -I: else a directory beside this script passes for the module of its name.
packages=()
/usr/bin/python3 -I -c 'import pika' 2>/dev/null || packages+=(python3-pika)
/usr/bin/python3 -I -c 'import celery, kombu' 2>/dev/null || packages+=(python3-celery python3-kombu)
/usr/bin/ruby -e 'require "bunny"' 2>/dev/null || packages+=(ruby ruby-bunny)
/usr/bin/php -r 'require "PhpAmqpLib/autoload.php";' >/dev/null 2>&1 || packages+=(php-cli php-amqplib)
[[ -e /usr/share/java/amqp-client.jar ]] || packages+=(librabbitmq-client-java)
[[ -e /usr/share/java/slf4j-nop.jar ]] || packages+=(libslf4j-java)
command -v java >/dev/null || packages+=(default-jre-headless)
command -v javac >/dev/null || packages+=(ecj)
command -v amqp-publish >/dev/null || packages+=(amqp-tools)
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)
command -v ip >/dev/null || packages+=(iproute2)
if [[ ${#packages[@]} -gt 0 ]]; then
  export DEBIAN_FRONTEND=noninteractive
  quietly apt-get update
  quietly apt-get install -y --no-install-recommends "${packages[@]}"
fi

# npm_client DIRECTORY MODULE
npm_client() {
  local installed wanted
  installed="$(cd "$1" && node -p "require('./node_modules/$2/package.json').version" 2>/dev/null || true)"
  wanted="$(cd "$1" && node -p "require('./package-lock.json').packages['node_modules/$2'].version")"
  if [[ "$installed" != "$wanted" ]]; then
    (cd "$1" && quietly npm ci --no-audit --no-fund --ignore-scripts)
  fi
}
npm_client amqplib amqplib
npm_client amqp-client ws

# rabbitmqadmin is a script inside the broker's package, which is not installed for it.
if [[ ! -e rabbitmqadmin/downloaded/rabbitmqadmin ]]; then
  package="$(mktemp -d)"
  trap 'rm -rf "$log" "$package"' EXIT
  chmod 755 "$package"
  (cd "$package" && { apt-get download rabbitmq-server >"$log" 2>&1 || { quietly apt-get update && quietly apt-get download rabbitmq-server; }; } &&
    quietly dpkg -x rabbitmq-server_*.deb .)
  mkdir -p rabbitmqadmin/downloaded
  cp "$package"/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin rabbitmqadmin/downloaded/
fi

for module in amqp091 access openapi rabbithole; do
  (cd "$module" && quietly go mod download && quietly go mod verify)
done
# What upstream's tests import is no dependency of ours, so that go mod download
# leaves it out; the suites run where nothing can be downloaded.
(cd amqp091 && quietly go list -test -deps -tags integration github.com/rabbitmq/amqp091-go)
(cd rabbithole && quietly go list -test -deps github.com/michaelklishin/rabbit-hole/v3)
