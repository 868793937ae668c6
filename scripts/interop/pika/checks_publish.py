"""Publishing: bodies, properties, mandatory and immediate, confirms, transactions."""
import calendar
import datetime
import decimal
import hashlib

import pika
from pika.exceptions import UnroutableError

from harness import Failed, check, closes_channel, closes_connection, drain, equal, holds, publish, ready, wait_until

MEBIBYTE = 1 << 20


def round_trip(ctx, body, properties):
    """Publishes and gets one message."""
    queue = ctx.queue()
    ctx.channel.basic_publish("", queue, body, properties)
    method, got, got_body = ctx.channel.basic_get(queue, auto_ack=True)
    if method is None:
        raise Failed("expected the message, got an empty queue")
    return got, got_body


@check("body: 0 and 1 bytes, one frame exactly and one byte either side, 1 MiB, 10 MiB")
def bodies(ctx):
    frame_body = ctx.connection._impl.params.frame_max - 8
    queue = ctx.queue()
    for size in (0, 1, frame_body - 1, frame_body, frame_body + 1, 2 * frame_body, MEBIBYTE, 10 * MEBIBYTE):
        body = hashlib.sha256(str(size).encode()).digest() * (size // 32 + 1)
        body = body[:size]
        ctx.channel.basic_publish("", queue, body)
        _, _, got = ctx.channel.basic_get(queue, auto_ack=True)
        holds("a body of %d bytes unchanged" % size, got == body, None if got is None else len(got))


@check("body: 10 MiB is delivered to a consumer")
def body_deliver(ctx):
    queue, got = ctx.queue(), []
    ctx.channel.basic_consume(queue, lambda ch, method, properties, body: got.append(len(body)), auto_ack=True)
    ctx.channel.basic_publish("", queue, b"\xce" * (10 * MEBIBYTE))
    wait_until("the message", lambda: got, ctx.connection)
    equal("size", got, [10 * MEBIBYTE])


@check("properties: all fourteen come back")
def properties(ctx):
    sent = pika.BasicProperties(
        content_type="text/plain", content_encoding="gzip", headers={"k": "v"}, delivery_mode=2, priority=7,
        correlation_id="c-1", reply_to="reply", expiration="600000", message_id="m-1", timestamp=1234567890,
        type="kind", user_id="guest", app_id="app", cluster_id="cluster")
    got, _ = round_trip(ctx, b"x", sent)
    equal("properties", vars(got), vars(sent))


@check("properties: none at all, and empty strings")
def no_properties(ctx):
    got, _ = round_trip(ctx, b"x", pika.BasicProperties())
    equal("properties", {k: v for k, v in vars(got).items() if v is not None}, {})
    got, _ = round_trip(ctx, b"x", pika.BasicProperties(content_type="", correlation_id=""))
    equal("empty strings", (got.content_type, got.correlation_id), ("", ""))


@check("headers: every value type that pika sends comes back, nested")
def headers(ctx):
    sent = {
        "text": "grüße", "empty": "", "bytes": b"\x00\xff\xfe", "true": True, "false": False, "void": None,
        "small": 1, "negative": -5, "int32": 2147483647, "minimum": -2147483648, "int64": 1 << 40,
        "decimal": decimal.Decimal("12.345"),
        "time": datetime.datetime(2020, 2, 29, 12, 34, 56),
        "array": [1, "two", [3, None], {"four": 4}], "no array": [], "table": {"a": {"b": {"c": [True]}}}, "no table": {},
    }
    got, _ = round_trip(ctx, b"x", pika.BasicProperties(headers=sent))
    equal("keys", sorted(got.headers), sorted(sent))
    for key, value in sent.items():
        equal("header " + key, got.headers[key], value)
    equal("timestamp", calendar.timegm(got.headers["time"].utctimetuple()), 1582979696)


@check("headers: ten thousand bytes in one, a hundred in number")
def large_headers(ctx):
    sent = {"large": "x" * 10000}
    sent.update(("h%d" % i, i) for i in range(100))
    got, _ = round_trip(ctx, b"x", pika.BasicProperties(headers=sent))
    equal("headers", got.headers, sent)


@check("headers: keys of 128 bytes and UTF-8 keys")
def header_keys(ctx):
    sent = {"k" * 128: 1, "schlüssel": 2}
    got, _ = round_trip(ctx, b"x", pika.BasicProperties(headers=sent))
    equal("headers", got.headers, sent)


@check("default exchange: routes by queue name; get-ok names exchange and key")
def default_exchange(ctx):
    queue = ctx.queue()
    publish(ctx.channel, queue, "x")
    ctx.channel.basic_publish("", ctx.name(), b"nobody")
    method, _, body = ctx.channel.basic_get(queue, auto_ack=True)
    equal("exchange, key, body", (method.exchange, method.routing_key, body), ("", queue, b"x"))


@check("publish: a missing exchange is 404, the other channels live on")
def missing_exchange(ctx):
    absent, victim, queue = ctx.name(), ctx.connection.channel(), ctx.queue()
    victim.basic_publish(absent, "x", b"x")
    closes_channel(404, "no exchange '%s' in vhost '/'" % absent, lambda: victim.queue_declare("", exclusive=True))
    publish(ctx.channel, queue, "alive")
    equal("bodies", drain(ctx.channel, queue), [b"alive"])


@check("publish: another's user_id is 406")
def user_id(ctx):
    ctx.channel.confirm_delivery()
    closes_channel(406, "user_id property set to 'somebody'",
                   lambda: ctx.channel.basic_publish("", "x", b"", pika.BasicProperties(user_id="somebody")))


@check("mandatory: an unroutable message returns with 312, headers and body")
def mandatory(ctx):
    returned = []
    ctx.channel.add_on_return_callback(lambda ch, method, properties, body: returned.append((method, properties, body)))
    absent = ctx.name()
    ctx.channel.basic_publish("amq.direct", absent, b"come back", pika.BasicProperties(headers={"n": 1}), mandatory=True)
    wait_until("the return", lambda: returned, ctx.connection)
    method, got, body = returned[0]
    equal("return", (method.reply_code, method.reply_text, method.exchange, method.routing_key, got.headers, body),
          (312, "NO_ROUTE", "amq.direct", absent, {"n": 1}, b"come back"))


@check("mandatory: a routable message does not return")
def mandatory_routable(ctx):
    queue = ctx.queue()
    ctx.channel.confirm_delivery()
    ctx.channel.basic_publish("", queue, b"x", mandatory=True)
    equal("bodies", drain(ctx.channel, queue), [b"x"])


@check("immediate: returns with 313 when no consumer can take it at once, is delivered when one can")
def immediate(ctx):
    queue = ctx.queue()
    impl = ctx.channel._impl  # BlockingChannel no longer offers the flag
    returned, delivered = [], []
    ctx.channel.add_on_return_callback(lambda ch, method, properties, body: returned.append((method.reply_code, method.reply_text, body)))

    def publish_immediate(body):
        impl._send_method(pika.spec.Basic.Publish(exchange="", routing_key=queue, immediate=True), (pika.BasicProperties(), body))

    publish_immediate(b"too early")
    wait_until("the return", lambda: returned, ctx.connection)
    equal("return", returned, [(313, "NO_CONSUMERS", b"too early")])
    equal("messages", ctx.channel.queue_declare(queue, passive=True).method.message_count, 0)
    ctx.channel.basic_consume(queue, lambda ch, method, properties, body: delivered.append(body), auto_ack=True)
    ctx.channel.queue_declare(queue, passive=True)  # the consumer is there
    publish_immediate(b"now")
    wait_until("the delivery", lambda: delivered, ctx.connection)
    equal("delivered, returned", (delivered, len(returned)), ([b"now"], 1))


@check("confirm: publishes are acked, unroutable ones too, and returned when mandatory")
def confirm(ctx):
    queue = ctx.queue()
    ctx.channel.confirm_delivery()
    for i in range(20):
        publish(ctx.channel, queue, str(i))
    equal("ready", ready(ctx.channel, queue), 20)
    ctx.channel.basic_publish("", ctx.name(), b"unroutable")
    try:
        ctx.channel.basic_publish("", ctx.name(), b"x", mandatory=True)
    except UnroutableError as error:
        equal("returned", len(error.messages), 1)
        return
    raise Failed("expected UnroutableError")


@check("confirm: a persistent message to a durable queue is acked")
def confirm_persistent(ctx):
    queue = ctx.queue(exclusive=False, durable=True)
    ctx.channel.confirm_delivery()
    publish(ctx.channel, queue, "x", properties=pika.BasicProperties(delivery_mode=2))
    equal("bodies", drain(ctx.channel, queue), [b"x"])


@check("confirm and tx exclude each other: 406 both ways")
def confirm_tx(ctx):
    ctx.channel.confirm_delivery()
    closes_channel(406, "cannot switch from confirm to tx mode", ctx.channel.tx_select)
    other = ctx.connection.channel()
    other.tx_select()
    closes_channel(406, "cannot switch from tx to confirm mode", other.confirm_delivery)


@check("tx: commit and rollback without select are 406")
def tx_without_select(ctx):
    closes_channel(406, "channel is not transactional", ctx.connection.channel().tx_commit)
    closes_channel(406, "channel is not transactional", ctx.connection.channel().tx_rollback)


@check("tx: publishes are invisible before commit, in order after, gone after rollback")
def tx_publish(ctx):
    queue, tx = ctx.queue(), ctx.connection.channel()
    tx.tx_select()
    publish(tx, queue, "1", "2")
    equal("ready before commit", ready(ctx.channel, queue), 0)
    tx.tx_commit()
    equal("bodies after commit", drain(ctx.channel, queue), [b"1", b"2"])
    publish(tx, queue, "3")
    tx.tx_rollback()
    publish(tx, queue, "4")
    tx.tx_commit()
    equal("bodies after rollback", drain(ctx.channel, queue), [b"4"])


@check("tx: acks take effect at commit; rollback leaves messages unacked and ackable")
def tx_ack(ctx):
    queue, tx = ctx.queue(), ctx.connection.channel()
    publish(ctx.channel, queue, "1", "2", "3")
    tx.tx_select()
    tags = [tx.basic_get(queue)[0].delivery_tag for _ in range(3)]
    tx.basic_ack(tags[0])
    tx.tx_commit()
    tx.basic_ack(tags[1])
    tx.tx_rollback()
    tx.basic_ack(tags[1])
    tx.tx_commit()
    tx.basic_ack(tags[2])
    tx.close()  # not committed: comes back
    method, _, body = ctx.channel.basic_get(queue, auto_ack=True)
    equal("body, redelivered", (body, method and method.redelivered), (b"3", True))
    equal("rest", drain(ctx.channel, queue), [])


@check("tx: closing the channel drops its publishes")
def tx_close(ctx):
    queue, tx = ctx.queue(), ctx.connection.channel()
    tx.tx_select()
    publish(tx, queue, "lost")
    tx.close()
    equal("bodies", drain(ctx.channel, queue), [])


@check("tx: a mandatory return comes with the commit")
def tx_mandatory(ctx):
    returned = []
    ctx.channel.add_on_return_callback(lambda ch, method, properties, body: returned.append(method.reply_code))
    ctx.channel.tx_select()
    ctx.channel.basic_publish("", ctx.name(), b"x", mandatory=True)
    ctx.channel.basic_qos(prefetch_count=0)
    ctx.connection.process_data_events(0)
    equal("before commit", returned, [])
    ctx.channel.tx_commit()
    wait_until("the return", lambda: returned, ctx.connection)
    equal("after commit", returned, [312])
