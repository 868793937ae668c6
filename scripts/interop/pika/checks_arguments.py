"""Queue arguments: validation, times to live, limits, dead letters, delivery limits; CC and BCC."""
import time

import pika
from pika.exceptions import NackError

from harness import check, closes_channel, drain, equal, holds, publish, ready, wait_until


def dead_letters(ctx, **arguments):
    """A queue with these arguments and another that gets its dead letters; returns both names."""
    dead = ctx.queue()
    arguments = {name.replace("_", "-"): value for name, value in arguments.items()}
    arguments.update({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    return ctx.queue(arguments=arguments), dead


def arrived(ctx, queue, count):
    """Waits for that many messages, gets them; returns (properties, body) of each."""
    wait_until("%d messages in %s" % (count, queue), lambda: ready(ctx.channel, queue) >= count, ctx.connection)
    return [ctx.channel.basic_get(queue, auto_ack=True)[1:] for _ in range(count)]


@check("arguments: wrong types and values are 406, with the reason")
def invalid(ctx):
    for name, value, text in (
        ("x-message-ttl", "abc", '"expected integer, got longstr"'),
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-priority", 300, "{max_value_exceeded,300}"),
        ("x-overflow", "nope", "invalid_overflow"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-queue-type", "nope", "unsupported queue type 'nope'"),
        ("x-queue-mode", "nope", "unsupported queue mode 'nope'"),
        ("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"),
    ):
        channel, queue = ctx.connection.channel(), ctx.name()
        closes_channel(406, "invalid arg '%s' for queue '%s' in vhost '/': " % (name, queue),
                       lambda: channel.queue_declare(queue, exclusive=True, arguments={name: value}))
        channel = ctx.connection.channel()
        closes_channel(406, text, lambda: channel.queue_declare(queue, exclusive=True, arguments={name: value}))


@check("arguments: another value at a second declare is 406, an unknown argument is not compared")
def inequivalent(ctx):
    queue = ctx.queue(arguments={"x-message-ttl": 60000, "x-foo": 1})
    ctx.channel.queue_declare(queue, exclusive=True, arguments={"x-message-ttl": 60000, "x-foo": 2})
    closes_channel(406, "inequivalent arg 'x-message-ttl' for queue '%s' in vhost '/': received" % queue,
                   lambda: ctx.channel.queue_declare(queue, exclusive=True, arguments={"x-message-ttl": 1}))


@check("ttl: of the queue and of the message, the lower one counts; expired messages become dead letters")
def ttl(ctx):
    queue, dead = dead_letters(ctx, x_message_ttl=100)
    publish(ctx.channel, queue, "slow", properties=pika.BasicProperties(expiration="60000"))
    publish(ctx.channel, queue, "fast", properties=pika.BasicProperties(expiration="50"))
    (slow, body), (fast, other) = arrived(ctx, dead, 2)
    equal("bodies", [body, other], [b"slow", b"fast"])
    equal("expirations", [slow.expiration, fast.expiration], [None, None])
    equal("original expirations", [p.headers["x-death"][0]["original-expiration"] for p in (slow, fast)], ["60000", "50"])
    equal("left", ready(ctx.channel, queue), 0)


@check("ttl: never early")
def ttl_not_early(ctx):
    queue, dead = dead_letters(ctx, x_message_ttl=200)
    started = time.monotonic()
    publish(ctx.channel, queue, "m")
    arrived(ctx, dead, 1)
    holds("at least 200 ms", time.monotonic() - started >= 0.2, time.monotonic() - started)


@check("ttl 0: nobody there, nothing kept")
def ttl_zero(ctx):
    queue = ctx.queue(arguments={"x-message-ttl": 0})
    publish(ctx.channel, queue, "m")
    wait_until("an empty queue", lambda: ready(ctx.channel, queue) == 0, ctx.connection)


@check("expires: an unused queue goes")
def expires(ctx):
    queue = ctx.name()
    ctx.channel.queue_declare(queue, arguments={"x-expires": 100})
    ctx.connection.sleep(1)
    closes_channel(404, "no queue '%s'" % queue, lambda: ctx.channel.queue_declare(queue, passive=True))


@check("max-length: drop-head keeps the newest, the oldest become dead letters (maxlen)")
def drop_head(ctx):
    queue, dead = dead_letters(ctx, x_max_length=2)
    publish(ctx.channel, queue, "1", "2", "3", "4")
    equal("left", drain(ctx.channel, queue), [b"3", b"4"])
    letters = arrived(ctx, dead, 2)
    equal("dead", [body for _, body in letters], [b"1", b"2"])
    equal("reason", letters[0][0].headers["x-death"][0]["reason"], "maxlen")


@check("max-length-bytes: bodies count")
def drop_head_bytes(ctx):
    queue = ctx.queue(arguments={"x-max-length-bytes": 10})
    publish(ctx.channel, queue, "12345", "1234", "123")
    equal("left", drain(ctx.channel, queue), [b"1234", b"123"])


@check("reject-publish: basic.nack for what does not fit")
def reject_publish(ctx):
    queue = ctx.queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ctx.channel.confirm_delivery()
    ctx.channel.basic_publish("", queue, b"fits")
    try:
        ctx.channel.basic_publish("", queue, b"does not")
    except NackError:
        pass
    else:
        holds("a nack", False)
    equal("left", drain(ctx.channel, queue), [b"fits"])


@check("dead letters: x-death, x-first-death-*, rejection, count over a retry cycle")
def retry(ctx):
    work, wait = ctx.name("w"), ctx.queue(arguments={"x-dead-letter-exchange": "amq.direct", "x-message-ttl": 1})
    ctx.channel.queue_declare(work, exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait})
    ctx.channel.queue_bind(work, "amq.direct", wait)
    publish(ctx.channel, work, "m", properties=pika.BasicProperties(headers={"mine": 1}, message_id="id"))
    for _ in range(3):
        wait_until("the message", lambda: ready(ctx.channel, work) == 1, ctx.connection)
        method, properties, body = ctx.channel.basic_get(work)
        ctx.channel.basic_reject(method.delivery_tag, requeue=False)
    wait_until("the message", lambda: ready(ctx.channel, work) == 1, ctx.connection)
    method, properties, body = ctx.channel.basic_get(work, auto_ack=True)
    deaths = properties.headers["x-death"]
    equal("deaths", [(d["queue"], d["reason"], d["count"]) for d in deaths], [(wait, "expired", 3), (work, "rejected", 3)])
    equal("routing keys", deaths[1]["routing-keys"], [work])
    equal("first", [properties.headers["x-first-death-" + k] for k in ("queue", "reason", "exchange")], [work, "rejected", ""])
    equal("kept", (properties.headers["mine"], properties.message_id, body), (1, "id", b"m"))
    equal("exchange", (method.exchange, method.routing_key), ("amq.direct", wait))


@check("dead letters: a cycle without a rejection ends")
def cycle(ctx):
    queue = ctx.name()
    ctx.channel.queue_declare(queue, exclusive=True, arguments={
        "x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue})
    publish(ctx.channel, queue, "m")
    wait_until("an empty queue", lambda: ready(ctx.channel, queue) == 0, ctx.connection)
    ctx.connection.sleep(0.1)
    equal("left", ready(ctx.channel, queue), 0)


@check("quorum: x-delivery-count from the second delivery on; x-delivery-limit")
def delivery_limit(ctx):
    dead, queue = ctx.queue(), ctx.name()
    ctx.later(lambda clean: clean.queue_delete(queue))
    ctx.channel.queue_declare(queue, durable=True, arguments={
        "x-queue-type": "quorum", "x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    publish(ctx.channel, queue, "poison")
    counts = []
    for _ in range(3):
        wait_until("the message", lambda: ready(ctx.channel, queue) == 1, ctx.connection)
        method, properties, _ = ctx.channel.basic_get(queue)
        counts.append((properties.headers or {}).get("x-delivery-count"))
        ctx.channel.basic_reject(method.delivery_tag, requeue=True)
    equal("counts", counts, [None, 1, 2])
    properties, _ = arrived(ctx, dead, 1)[0]
    equal("reason", properties.headers["x-death"][0]["reason"], "delivery_limit")


@check("CC and BCC: each key routes, BCC is not delivered; not an array is 406")
def carbon_copies(ctx):
    to, cc, bcc = ctx.queue(), ctx.queue(), ctx.queue()
    publish(ctx.channel, to, "m", properties=pika.BasicProperties(headers={"CC": [cc, to], "BCC": [bcc]}))
    for queue in (to, cc, bcc):
        _, properties, body = ctx.channel.basic_get(queue, auto_ack=True)
        equal(queue, (body, properties.headers), (b"m", {"CC": [cc, to]}))
        equal("left", ready(ctx.channel, queue), 0)
    closes_channel(406, 'invalid message: {unacceptable_type_in_header,"CC",longstr}',
                   lambda: publish(ctx.channel, to, "m", properties=pika.BasicProperties(headers={"CC": to})))
