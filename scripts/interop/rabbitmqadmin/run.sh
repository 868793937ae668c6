#!/usr/bin/env bash
# Drives rabbitmqadmin against a broker of its own; see checks.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec ../with-broker.sh /usr/bin/python3 -B checks.py
