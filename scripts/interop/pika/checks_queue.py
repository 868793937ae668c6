"""Queues: declare, bind, purge, delete, exclusivity, automatic deletion."""
import re

from harness import check, closes_channel, drain, equal, holds, publish, ready, wait_until

NO_QUEUE = "no queue '%s' in vhost '/'"


def missing(ctx, queue):
    """The queue must not exist."""
    closes_channel(404, NO_QUEUE % queue, lambda: ctx.connection.channel().queue_declare(queue, passive=True))


@check("queue: declare-ok carries name, message and consumer counts")
def declare_ok(ctx):
    queue = ctx.queue()
    publish(ctx.channel, queue, "1", "2")
    ctx.channel.basic_qos(prefetch_count=1)
    other = ctx.connection.channel()
    other.basic_qos(prefetch_count=1)
    other.basic_consume(queue, lambda *_: None)
    wait_until("one ready message", lambda: ready(ctx.channel, queue) == 1, ctx.connection)
    method = ctx.channel.queue_declare(queue, exclusive=True).method
    equal("name", method.queue, queue)
    equal("message_count, consumer_count", (method.message_count, method.consumer_count), (1, 1))


@check("queue: durable, transient, auto-delete and exclusive redeclare with equal properties")
def redeclare_equal(ctx):
    for arguments in ({"durable": True}, {}, {"auto_delete": True}, {"exclusive": True}, {"arguments": {"x-max-length": 10}}):
        name = ctx.queue(**dict({"exclusive": False}, **arguments))
        ctx.channel.queue_declare(name, **arguments)
        ctx.channel.queue_delete(name)


@check("queue: redeclare with other properties is 406")
def redeclare(ctx):
    name = ctx.queue(exclusive=False)
    for what, arguments in (("durable", {"durable": True}), ("auto_delete", {"auto_delete": True}),
                            ("x-max-length", {"arguments": {"x-max-length": 5}})):
        closes_channel(406, "inequivalent arg '%s' for queue '%s'" % (what, name),
                       lambda: ctx.connection.channel().queue_declare(name, **arguments))


@check("queue: redeclare as exclusive is 405")
def redeclare_exclusive(ctx):
    name = ctx.queue(exclusive=False)
    closes_channel(405, "locked queue '%s'" % name, lambda: ctx.channel.queue_declare(name, exclusive=True))


@check("queue: passive declare ignores properties; of a missing one is 404")
def passive(ctx):
    name = ctx.queue(exclusive=False)
    ctx.channel.queue_declare(name, passive=True, durable=True, auto_delete=True)
    missing(ctx, ctx.name())


@check("queue: reserved names are 403")
def reserved(ctx):
    closes_channel(403, "queue name 'amq.interop' contains reserved prefix 'amq.*'", lambda: ctx.channel.queue_declare("amq.interop"))


@check("queue: server-named ones are amq.gen-… and unique; the empty name means the last declared")
def server_named(ctx):
    names = [ctx.channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    holds("amq.gen- names", all(re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{16,}", name) for name in names), names)
    equal("distinct names", len(set(names)), 3)
    ctx.channel.queue_bind("", "amq.direct", ctx.prefix)
    ctx.channel.basic_publish("amq.direct", ctx.prefix, b"to the last")
    equal("bodies", [drain(ctx.channel, name) for name in names], [[], [], [b"to the last"]])
    ctx.channel.queue_delete("")
    missing(ctx, names[2])


@check("queue: the empty name without a declare is 404")
def empty_name(ctx):
    closes_channel(404, "no previously declared queue", lambda: ctx.channel.queue_purge(""))


@check("queue: a name of 255 bytes works")
def long_name(ctx):
    name = ctx.prefix.ljust(255, "x")
    equal("name", ctx.channel.queue_declare(name, exclusive=True).method.queue, name)
    publish(ctx.channel, name, "x")
    equal("bodies", drain(ctx.channel, name), [b"x"])


@check("exclusive: every use from another connection is 405")
def exclusive(ctx):
    name = ctx.queue()
    ctx.channel.queue_bind(name, "amq.direct", name)
    other = ctx.connect()
    for action in (lambda ch: ch.queue_declare(name, exclusive=True), lambda ch: ch.queue_declare(name, passive=True),
                   lambda ch: ch.queue_bind(name, "amq.direct", "x"), lambda ch: ch.queue_unbind(name, "amq.direct", name),
                   lambda ch: ch.queue_purge(name), lambda ch: ch.queue_delete(name), lambda ch: ch.basic_get(name),
                   lambda ch: ch.basic_consume(name, print)):
        closes_channel(405, "cannot obtain exclusive access to locked queue '%s'" % name, lambda: action(other.channel()))


@check("exclusive: deleted with its connection, though not with its channel")
def exclusive_end(ctx):
    owner = ctx.connect()
    channel = owner.channel()
    name = ctx.queue(channel)
    channel.close()
    owner.channel().queue_declare(name, passive=True)
    owner.close()
    missing(ctx, name)


@check("auto-delete: goes when its last consumer cancels, not before it had one")
def auto_delete(ctx):
    name = ctx.queue(exclusive=False, auto_delete=True)
    ctx.channel.basic_get(name)
    tags = [ctx.channel.basic_consume(name, lambda *_: None) for _ in range(2)]
    ctx.channel.basic_cancel(tags[0])
    ctx.channel.queue_declare(name, passive=True)
    ctx.channel.basic_cancel(tags[1])
    missing(ctx, name)


@check("auto-delete: goes when the consumer's channel closes")
def auto_delete_channel(ctx):
    name = ctx.queue(exclusive=False, auto_delete=True)
    consumer = ctx.connection.channel()
    consumer.basic_consume(name, lambda *_: None)
    consumer.close()
    missing(ctx, name)


@check("bind: twice is once; unbind undoes it; arguments count")
def bind(ctx):
    name = ctx.queue()
    for _ in range(2):
        ctx.channel.queue_bind(name, "amq.direct", name)
    ctx.channel.basic_publish("amq.direct", name, b"1")
    ctx.channel.queue_unbind(name, "amq.direct", name, {"other": 1})
    ctx.channel.basic_publish("amq.direct", name, b"2")
    ctx.channel.queue_unbind(name, "amq.direct", name)
    ctx.channel.basic_publish("amq.direct", name, b"3")
    equal("bodies", drain(ctx.channel, name), [b"1", b"2"])


@check("bind: missing queue or exchange is 404")
def bind_missing(ctx):
    name, absent = ctx.queue(), ctx.name()
    closes_channel(404, NO_QUEUE % absent, lambda: ctx.connection.channel().queue_bind(absent, "amq.direct", "x"))
    closes_channel(404, "no exchange '%s' in vhost '/'" % absent, lambda: ctx.connection.channel().queue_bind(name, absent, "x"))


@check("unbind: what is not bound, or does not exist, is fine")
def unbind_missing(ctx):
    name, absent = ctx.queue(), ctx.name()
    ctx.channel.queue_unbind(name, "amq.direct", "nothing")
    ctx.channel.queue_unbind(absent, "amq.direct", "nothing")
    ctx.channel.queue_unbind(name, absent, "nothing")


@check("bind: bindings go with their queue and with their exchange")
def bind_end(ctx):
    exchange, name = ctx.exchange("direct"), ctx.queue()
    ctx.channel.queue_bind(name, exchange, "key")
    ctx.channel.exchange_delete(exchange)
    ctx.channel.exchange_declare(exchange, "direct")
    ctx.channel.basic_publish(exchange, "key", b"lost")
    equal("bodies", drain(ctx.channel, name), [])
    ctx.channel.queue_bind(name, exchange, "key")
    ctx.channel.queue_delete(name)
    ctx.channel.queue_declare(name, exclusive=True)
    ctx.channel.basic_publish(exchange, "key", b"lost")
    equal("bodies", drain(ctx.channel, name), [])


@check("purge: counts ready messages, leaves unacked ones")
def purge(ctx):
    name = ctx.queue()
    publish(ctx.channel, name, "1", "2", "3")
    method, _, _ = ctx.channel.basic_get(name)
    equal("purged", ctx.channel.queue_purge(name).method.message_count, 2)
    equal("ready", ready(ctx.channel, name), 0)
    ctx.channel.basic_nack(method.delivery_tag, requeue=True)
    equal("bodies", drain(ctx.channel, name), [b"1"])
    closes_channel(404, "no queue", lambda: ctx.connection.channel().queue_purge(ctx.name()))


@check("delete: counts messages; a missing queue counts 0")
def delete(ctx):
    name = ctx.queue()
    publish(ctx.channel, name, "1", "2", "3")
    equal("deleted", ctx.channel.queue_delete(name).method.message_count, 3)
    missing(ctx, name)
    equal("deleted again", ctx.channel.queue_delete(name).method.message_count, 0)


@check("delete: if-unused with a consumer and if-empty with a message are 406")
def delete_conditions(ctx):
    name = ctx.queue()
    publish(ctx.channel, name, "1")
    closes_channel(406, "not empty", lambda: ctx.connection.channel().queue_delete(name, if_empty=True))
    equal("purged", ctx.channel.queue_purge(name).method.message_count, 1)
    tag = ctx.channel.basic_consume(name, lambda *_: None)
    closes_channel(406, "in use", lambda: ctx.connection.channel().queue_delete(name, if_unused=True))
    ctx.channel.basic_cancel(tag)
    ctx.channel.queue_delete(name, if_unused=True, if_empty=True)
