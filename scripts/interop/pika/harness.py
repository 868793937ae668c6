"""What the checks of pika need beside suite.py: queues and exchanges, what an error must say, waiting."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import pika
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

import suite
from suite import URL, WAIT_SECONDS_MAX, Failed, check, equal, holds  # noqa: F401  (the checks import them from here)

CHECK_SECONDS_MAX = 15  # one check; the suite as a whole stays under a minute


def closes_channel(code, text, action):
    """Runs action, which must end in a channel.close with this code and a text containing `text`."""
    _closes(ChannelClosedByBroker, code, text, action)


def closes_connection(code, text, action):
    """Runs action, which must end in a connection.close with this code and a text containing `text`."""
    _closes(ConnectionClosedByBroker, code, text, action)


def _closes(kind, code, text, action):
    try:
        got = action()
    except kind as error:
        equal("reply code", error.reply_code, code)
        holds("a reply text containing %r" % text, text in error.reply_text, error.reply_text)
        return
    except Exception as error:  # any other end is a failed expectation, shown with its type
        raise Failed("expected %s %d, got %r" % (kind.__name__, code, error)) from error
    raise Failed("expected %s %d, but the call returned %r" % (kind.__name__, code, got))


def parameters(**overrides):
    """URLParameters of $AMQP_URL with attributes replaced, one connection attempt."""
    result = pika.URLParameters(URL)
    result.connection_attempts = 1
    result.socket_timeout = WAIT_SECONDS_MAX
    result.stack_timeout = WAIT_SECONDS_MAX
    for name, value in overrides.items():
        setattr(result, name, value)
    return result


class Context(suite.Context):
    """What a check works with."""

    suite = "pika"

    def open_connection(self, **overrides):
        return pika.BlockingConnection(parameters(**overrides))

    def close_connection(self, connection):
        if connection.is_open:
            connection.close()

    def queue(self, channel=None, **arguments):
        """Declares an exclusive queue with a unique name and returns the name."""
        name = self.name()
        arguments.setdefault("exclusive", True)
        (channel or self.channel).queue_declare(name, **arguments)
        if not arguments["exclusive"]:
            self.later(lambda clean: clean.queue_delete(name))
        return name

    def exchange(self, kind, **arguments):
        """Declares an exchange with a unique name, deleted after the check, and returns the name."""
        name = self.name()
        self.channel.exchange_declare(name, kind, **arguments)
        self.later(lambda clean: clean.exchange_delete(name))
        return name

    def clean(self, actions):
        connection = pika.BlockingConnection(parameters())
        for action in actions:
            try:
                action(connection.channel())
            except ChannelClosedByBroker:
                pass
        connection.close()


def publish(channel, queue, *bodies, exchange="", properties=None):
    """Publishes str or bytes bodies with the queue's name as routing key.

    On the default exchange it then asks for the queue, which must exist: the answer comes after the messages
    were queued, so that other channels can see them.
    """
    for body in bodies:
        channel.basic_publish(exchange, queue, body, properties)
    if exchange == "":
        ready(channel, queue)


def drain(channel, queue):
    """Gets and acks everything that is ready; returns the bodies."""
    bodies = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


def ready(channel, queue):
    """The number of ready messages."""
    return channel.queue_declare(queue, passive=True).method.message_count


def wait_until(what, condition, connection):
    """Processes the connection's events until condition() is true."""
    suite.until(what, condition, lambda: connection.process_data_events(time_limit=0.02))


def run():
    """Runs all registered checks; returns the exit status."""
    return suite.run("pika " + pika.__version__, Context, CHECK_SECONDS_MAX)
