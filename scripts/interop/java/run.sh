#!/usr/bin/env bash
# Compiles the checks with javac, or with Debian's ecj where there is only a
# runtime, and runs them: run.sh [WORD…], see Checks.java. Debian's ecj calls
# itself javac too (by update-alternatives), and takes other flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
classes="$(mktemp -d)"
trap 'rm -rf "$classes"' EXIT
path=/usr/share/java/amqp-client.jar:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-nop.jar
if [[ "$(javac -version 2>&1)" == 'javac '* ]]; then
  javac -Xlint:all -Werror -proc:none -cp "$path" -d "$classes" ./*.java
else
  ecj -source 11 -target 11 -proc:none -cp "$path" -d "$classes" ./*.java
fi
export CLIENT_VERSION="java amqp-client $(basename "$(readlink -f /usr/share/java/amqp-client.jar)" .jar)"
if version="$(dpkg-query --show --showformat '${Version}' librabbitmq-client-java 2>/dev/null)"; then
  CLIENT_VERSION="amqp-client $version"
fi
status=0
java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx512m -cp "$classes:$path" Checks "$@" || status=$?
exit "$status"
