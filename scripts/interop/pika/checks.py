#!/usr/bin/python3
"""Checks the broker at $AMQP_URL with pika: blocking and asynchronous connections.

Usage: checks.py [WORD…]   runs the checks whose name contains one of the words (default: all).
VERBOSE=1 prints the passed ones too.
"""
import logging
import sys

import checks_connection  # noqa: F401  (each module registers its checks)
import checks_exchange  # noqa: F401
import checks_queue  # noqa: F401
import checks_publish  # noqa: F401
import checks_consume  # noqa: F401
import checks_arguments  # noqa: F401
import checks_streams  # noqa: F401
import checks_consumers  # noqa: F401
import checks_async  # noqa: F401
import harness

logging.getLogger("pika").setLevel(logging.CRITICAL + 1)  # provoked errors are not news

if __name__ == "__main__":
    sys.exit(harness.run())
