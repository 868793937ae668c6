"""What the checks of kombu and celery need beside suite.py: queues and exchanges, what an error must say."""
import os
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import celery
import kombu

import suite
from suite import URL, WAIT_SECONDS_MAX, Failed, check, equal, holds  # noqa: F401  (the checks import them from here)

CHECK_SECONDS_MAX = 20  # one check; the suite as a whole stays under a minute


def raises(kind, text, action):
    """Runs action, which must raise this exception with a text that contains `text`."""
    try:
        got = action()
    except kind as error:
        holds("a text containing %r" % text, text in str(error), str(error))
        return
    except Exception as error:  # any other end is a failed expectation, shown with its type
        raise Failed("expected %s, got %r" % (kind.__name__, error)) from error
    raise Failed("expected %s, but the call returned %r" % (kind.__name__, got))


def until(what, condition):
    """Asks again and again until condition() is true, and returns that."""
    return suite.until(what, condition, lambda: time.sleep(0.01))


class Context(suite.Context):
    """What a check works with."""

    suite = "celery"

    def open_connection(self, **options):
        return kombu.Connection(URL, connect_timeout=WAIT_SECONDS_MAX, **options)

    def close_connection(self, connection):
        connection.release()

    def exchange(self, kind, **options):
        """Declares an exchange, deleted after the check."""
        exchange = kombu.Exchange(self.name(), kind, durable=False, **options)(self.channel)
        exchange.declare()
        self.later(lambda channel: exchange(channel).delete())
        return exchange

    def queue(self, exchange=None, routing_key=None, **options):
        """Declares a queue, bound if an exchange is given, deleted after the check."""
        options.setdefault("durable", False)
        name = self.name()
        queue = kombu.Queue(name, exchange or "", routing_key=name if routing_key is None else routing_key, **options)(self.channel)
        queue.declare()
        self.later(lambda channel: queue(channel).delete())
        return queue

    def send(self, queue, *bodies, **options):
        """Publishes to a queue through the default exchange and waits until they are there."""
        producer = kombu.Producer(self.channel)
        for body in bodies:
            producer.publish(body, routing_key=queue.name, **options)
        self.count(queue)

    def count(self, queue):
        """The number of ready messages."""
        return queue(self.channel).queue_declare(passive=True).message_count

    def drain(self, queue):
        """Gets and acks everything that is ready; returns the payloads."""
        payloads = []
        while True:
            message = queue(self.channel).get(no_ack=True)
            if message is None:
                return payloads
            payloads.append(message.payload)

    def clean(self, actions):
        with kombu.Connection(URL) as connection:
            for action in actions:
                action(connection.channel())


def run():
    """Runs the registered checks; returns the exit status."""
    return suite.run("celery %s kombu %s" % (celery.__version__, kombu.__version__), Context, CHECK_SECONDS_MAX)
