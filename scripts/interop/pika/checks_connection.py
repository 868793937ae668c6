"""Connections and channels: authentication, tuning, heartbeats, limits, errors."""
import select
import time

import pika
from pika import credentials, data
from pika.exceptions import AMQPConnectionError, ChannelWrongStateError

from harness import Failed, WAIT_SECONDS_MAX, check, closes_channel, closes_connection, drain, equal, holds, parameters, publish


class AmqplainCredentials:
    """The AMQPLAIN mechanism, which pika does not ship: a field table without its length."""

    TYPE = "AMQPLAIN"

    def __init__(self, username, password):
        self.username = username
        self.password = password

    def response_for(self, start):
        """Returns (mechanism, response), or (None, None) if the server does not offer it."""
        if self.TYPE.encode() not in start.mechanisms.split():
            return None, None
        pieces = []
        data.encode_table(pieces, {"LOGIN": self.username, "PASSWORD": self.password})
        return self.TYPE, b"".join(pieces)[4:]

    def erase_credentials(self):
        """pika's interface; nothing to erase."""


credentials.VALID_TYPES.append(AmqplainCredentials)


def refused(action):
    """The connection attempt must fail; returns the error's text."""
    try:
        action()
    except AMQPConnectionError as error:
        return repr(error)
    raise Failed("expected the connection to be refused, but it opened")


@check("connection: PLAIN, open and close")
def plain(ctx):
    connection = ctx.connect()
    holds("an open connection", connection.is_open)
    connection.close()
    holds("a closed connection", connection.is_closed)


@check("connection: AMQPLAIN")
def amqplain(ctx):
    plain_credentials = parameters().credentials
    connection = ctx.connect(credentials=AmqplainCredentials(plain_credentials.username, plain_credentials.password))
    connection.channel().queue_declare(ctx.name(), exclusive=True)


@check("connection: wrong password is 403")
def wrong_password(ctx):
    text = refused(lambda: ctx.connect(credentials=pika.PlainCredentials("guest", "not-the-password")))
    holds("a 403 naming the mechanism", "403" in text and "PLAIN" in text, text)


@check("connection: wrong AMQPLAIN password is 403")
def wrong_amqplain_password(ctx):
    text = refused(lambda: ctx.connect(credentials=AmqplainCredentials("guest", "not-the-password")))
    holds("a 403 naming the mechanism", "403" in text and "AMQPLAIN" in text, text)


@check("connection: unknown user is 403")
def unknown_user(ctx):
    text = refused(lambda: ctx.connect(credentials=pika.PlainCredentials(ctx.name(), "x")))
    holds("a 403", "403" in text, text)


@check("connection: unknown vhost is 530")
def unknown_vhost(ctx):
    text = refused(lambda: ctx.connect(virtual_host="no-such-vhost"))
    holds("a 530 naming the vhost", "530" in text and "vhost no-such-vhost not found" in text, text)


@check("connection: server properties and capabilities")
def server_properties(ctx):
    properties = ctx.connection._impl.server_properties
    for key in ("product", "version", "platform"):
        holds("server property " + key, isinstance(properties.get(key), str), properties)
    capabilities = properties["capabilities"]
    for key in ("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
                "authentication_failure_close", "per_consumer_qos"):
        equal("capability " + key, capabilities.get(key), True)


@check("connection: client properties of all kinds are accepted")
def client_properties(ctx):
    connection = ctx.connect(client_properties={
        "connection_name": "interop", "number": 7, "big": 1 << 40, "flag": True, "nothing": None,
        "nested": {"list": [1, "two", {"three": 3}]}})
    holds("an open connection", connection.channel().is_open)


@check("tune: the client's frame_max 4096 is kept, larger bodies are split")
def frame_max(ctx):
    connection = ctx.connect(frame_max=4096)
    equal("negotiated frame_max", connection._impl.params.frame_max, 4096)
    channel = connection.channel()
    queue = ctx.queue(channel)
    bodies = [bytes([size % 251]) * size for size in (4087, 4088, 4089, 8176, 8177, 100000)]
    publish(channel, queue, *bodies)
    equal("body sizes", [len(body) for body in drain(channel, queue)], [len(body) for body in bodies])


@check("tune: channel_max of the client is kept")
def channel_max(ctx):
    connection = ctx.connect(channel_max=5)
    equal("negotiated channel_max", connection._impl.params.channel_max, 5)
    equal("channel numbers", [connection.channel().channel_number for _ in range(5)], [1, 2, 3, 4, 5])


@check("tune: the server proposes limits")
def server_limits(ctx):
    negotiated = ctx.connect(channel_max=65535, frame_max=131072)._impl.params
    holds("channel_max between 1 and 65535", 1 <= negotiated.channel_max <= 65535, negotiated.channel_max)
    holds("frame_max between 4096 and 131072", 4096 <= negotiated.frame_max <= 131072, negotiated.frame_max)


@check("heartbeat: an idle connection with heartbeat 1 s stays open, frames arrive")
def heartbeat_idle(ctx):
    connection = ctx.connect(heartbeat=1)
    equal("negotiated heartbeat", connection._impl.params.heartbeat, 1)
    connection.process_data_events(time_limit=3.5)
    holds("heartbeats from the server", connection._impl._heartbeat_checker._heartbeat_frames_received >= 2,
          connection._impl._heartbeat_checker._heartbeat_frames_received)
    holds("an open connection", connection.channel().is_open)


@check("heartbeat: a client that falls silent is cut")
def heartbeat_silent(ctx):
    sock = ctx.connect(heartbeat=1)._impl._transport._sock  # nobody drives pika from here on
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        if not select.select([sock], [], [], 0.5)[0]:
            continue
        try:
            if not sock.recv(4096):
                return
        except ConnectionResetError:
            return
    raise Failed("expected the server to close the socket")


@check("connection: twenty at the same time")
def many_connections(ctx):
    connections = [ctx.connect() for _ in range(20)]
    equal("open", [connection.is_open for connection in connections], [True] * 20)


@check("channel: one hundred open, each usable; numbers are reused after close")
def many_channels(ctx):
    channels = [ctx.connection.channel() for _ in range(100)]
    queue = ctx.queue(channels[0])
    for channel in channels:
        equal("ready messages", channel.queue_declare(queue, passive=True).method.message_count, 0)
        channel.close()
    equal("number", ctx.connection.channel().channel_number, 1)


@check("channel: an error closes it alone; others live and its number can be reused")
def channel_error(ctx):
    first, second = ctx.connection.channel(), ctx.connection.channel()
    closes_channel(404, "no queue", lambda: first.queue_declare(ctx.name(), passive=True))
    holds("a closed channel", first.is_closed)
    queue = ctx.queue(second)
    again = ctx.connection.channel(first.channel_number)
    publish(again, queue, "after")
    equal("bodies", drain(second, queue), [b"after"])


@check("channel: a closed one refuses further use")
def closed_channel(ctx):
    ctx.channel.close()
    try:
        ctx.channel.basic_publish("", "x", b"")
    except ChannelWrongStateError:
        return
    raise Failed("expected ChannelWrongStateError")


@check("channel.flow: active=true is acknowledged")
def flow_on(ctx):
    equal("flow-ok", ctx.channel.flow(True), True)


@check("channel.flow: active=false is 540, connection closed")
def flow_off(ctx):
    closes_connection(540, "active=false", lambda: ctx.channel.flow(False))


@check("connection: an error on one leaves another untouched")
def isolation(ctx):
    other = ctx.connect().channel()
    queue = ctx.queue(other)
    closes_connection(503, "unknown exchange type", lambda: ctx.channel.exchange_declare(ctx.name(), "no-such-type"))
    publish(other, queue, "alive")
    equal("bodies", drain(other, queue), [b"alive"])
