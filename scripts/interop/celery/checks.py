#!/usr/bin/python3
"""Checks the broker at $AMQP_URL with kombu, and with celery: two workers and this process as their client.

Usage: checks.py [WORD…]   runs the checks whose name contains one of the words (default: all).
VERBOSE=1 prints the passed ones too.
"""
import logging
import os
import shutil
import sys
import tempfile
import uuid

import harness

import checks_kombu  # noqa: F401  (each module registers its checks)
import checks_kombu_arguments  # noqa: F401


def main():
    """Runs all with the workers' files in a temporary directory."""
    logging.disable(logging.CRITICAL)  # provoked errors are not news
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    work = tempfile.mkdtemp(prefix="interop-celery-")
    os.makedirs(os.path.join(work, "results"))
    os.environ["INTEROP_WORK"] = work
    os.environ["INTEROP_PREFIX"] = "interop-celery-" + uuid.uuid4().hex[:12]
    import checks_celery  # reads the two

    try:
        return harness.run()
    finally:
        checks_celery.stop()
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
