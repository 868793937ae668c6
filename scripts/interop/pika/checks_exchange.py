"""Exchanges: declare, delete, bindings and how each type routes."""
from harness import check, closes_channel, closes_connection, drain, equal, publish

import pika

NO_EXCHANGE = "no exchange '%s' in vhost '/'"


def routed(ctx, exchange, bindings, keys, headers=None):
    """Binds one queue per binding (routing key, arguments), publishes each key; returns which bindings got which."""
    queues = []
    for key, arguments in bindings:
        queue = ctx.queue()
        ctx.channel.queue_bind(queue, exchange, key, arguments)
        queues.append(queue)
    for key in keys:
        ctx.channel.basic_publish(exchange, key, key, pika.BasicProperties(headers=headers))
    return [[body.decode() for body in drain(ctx.channel, queue)] for queue in queues]


@check("exchange: declare, passive declare and delete of every type, durable and not")
def declare_types(ctx):
    for kind in ("direct", "fanout", "topic", "headers"):
        for durable in (False, True):
            name = ctx.exchange(kind, durable=durable)
            ctx.channel.exchange_declare(name, kind, durable=durable)
            ctx.channel.exchange_declare(name, kind, passive=True)
            ctx.channel.exchange_delete(name)
            closes_channel(404, NO_EXCHANGE % name,
                           lambda: ctx.connection.channel().exchange_declare(name, kind, passive=True))


@check("exchange: the predeclared ones exist")
def predeclared(ctx):
    for name in ("amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"):
        ctx.channel.exchange_declare(name, "direct", passive=True)


@check("exchange: redeclaring a predeclared one with equal properties is fine")
def redeclare_predeclared(ctx):
    ctx.channel.exchange_declare("amq.topic", "topic", durable=True)


@check("exchange: redeclare with other properties is 406")
def redeclare(ctx):
    name = ctx.exchange("direct")
    for what, kind, arguments in (
            ("type", "fanout", {}), ("durable", "direct", {"durable": True}),
            ("auto_delete", "direct", {"auto_delete": True}), ("internal", "direct", {"internal": True})):
        closes_channel(406, "inequivalent arg '%s' for exchange '%s'" % (what, name),
                       lambda: ctx.connection.channel().exchange_declare(name, kind, **arguments))


@check("exchange: reserved names are 403")
def reserved(ctx):
    closes_channel(403, "reserved prefix 'amq.*'", lambda: ctx.channel.exchange_declare("amq.interop", "direct"))
    closes_channel(403, "amq.direct", lambda: ctx.connection.channel().exchange_delete("amq.direct"))


@check("exchange: the default one may not be declared, deleted or bound: 403")
def default_exchange(ctx):
    queue = ctx.queue()
    for action in (lambda ch: ch.exchange_declare("", "direct", durable=True), lambda ch: ch.exchange_delete(""),
                   lambda ch: ch.queue_bind(queue, "", "key"), lambda ch: ch.queue_unbind(queue, "", queue),
                   lambda ch: ch.exchange_bind("amq.fanout", "", "key")):
        closes_channel(403, "operation not permitted on the default exchange", lambda: action(ctx.connection.channel()))


@check("exchange: an unknown type is 503, connection closed")
def unknown_type(ctx):
    closes_connection(503, "unknown exchange type 'nonsense'", lambda: ctx.channel.exchange_declare(ctx.name(), "nonsense"))


@check("exchange: delete if-unused of a bound one is 406, of an unbound one fine")
def if_unused(ctx):
    name, queue = ctx.exchange("direct"), ctx.queue()
    ctx.channel.queue_bind(queue, name, "key")
    closes_channel(406, "in use", lambda: ctx.connection.channel().exchange_delete(name, if_unused=True))
    ctx.channel.queue_unbind(queue, name, "key")
    ctx.channel.exchange_delete(name, if_unused=True)


@check("exchange: deleting a missing one is fine")
def delete_missing(ctx):
    ctx.channel.exchange_delete(ctx.name())


@check("exchange: publishing to an internal one is 403, binding it works")
def internal(ctx):
    inner, outer, queue = ctx.exchange("fanout", internal=True), ctx.exchange("fanout"), ctx.queue()
    ctx.channel.queue_bind(queue, inner)
    ctx.channel.exchange_bind(inner, outer)
    publish(ctx.channel, "", "through", exchange=outer)
    equal("bodies", drain(ctx.channel, queue), [b"through"])
    victim = ctx.connection.channel()
    victim.confirm_delivery()
    closes_channel(403, "internal exchange '%s'" % inner, lambda: publish(victim, "", "x", exchange=inner))


@check("exchange: auto-delete goes with its last binding")
def auto_delete(ctx):
    name, queue = ctx.exchange("fanout", auto_delete=True), ctx.queue()
    ctx.channel.queue_bind(queue, name)
    ctx.channel.exchange_declare(name, passive=True)
    ctx.channel.queue_unbind(queue, name)
    closes_channel(404, NO_EXCHANGE % name, lambda: ctx.channel.exchange_declare(name, passive=True))


@check("direct: exact keys, several bindings, one copy per queue")
def direct(ctx):
    name = ctx.exchange("direct")
    equal("routed", routed(ctx, name, [("a", None), ("b", None), ("", None), ("*", None)], ["a", "b", "c", "", "A"]),
          [["a"], ["b"], [""], []])
    queue = ctx.queue()
    for key in ("x", "y", "x"):
        ctx.channel.queue_bind(queue, name, key)
    ctx.channel.basic_publish(name, "x", b"once")
    equal("copies", drain(ctx.channel, queue), [b"once"])


@check("fanout: every queue once, whatever the key")
def fanout(ctx):
    equal("routed", routed(ctx, ctx.exchange("fanout"), [("a", None), ("b", None)], ["a", "z", ""]), [["a", "z", ""]] * 2)


@check("topic: * and # with their corner cases")
def topic(ctx):
    keys = ["", "a", "b", "a.b", "a.b.c", "a.c", "b.c", "a..c", ".", "a.", "a.x.y.c", "#", "*"]
    expected = {
        "#": keys,
        "*": ["a", "b", "#", "*"],
        "*.*": ["a.b", "a.c", "b.c", ".", "a."],
        "a.*": ["a.b", "a.c", "a."],
        "a.#": ["a", "a.b", "a.b.c", "a.c", "a..c", "a.", "a.x.y.c"],
        "#.c": ["a.b.c", "a.c", "b.c", "a..c", "a.x.y.c"],
        "a.#.c": ["a.b.c", "a.c", "a..c", "a.x.y.c"],
        "a.*.c": ["a.b.c", "a..c"],
        "#.#": keys,
        "*.#": keys[1:],
        "#.b.#": ["b", "a.b", "a.b.c", "b.c"],
        "a.b": ["a.b"],
        "": [""],
        "a.*#": [],
    }
    got = routed(ctx, ctx.exchange("topic"), [(pattern, None) for pattern in expected], keys)
    for pattern, bodies in zip(expected, got):
        equal("keys matched by %r" % pattern, bodies, expected[pattern])


@check("topic: overlapping bindings of a queue give one copy; unbinding one leaves the other")
def topic_overlap(ctx):
    name, queue = ctx.exchange("topic"), ctx.queue()
    for pattern in ("a.#", "*.b", "a.b"):
        ctx.channel.queue_bind(queue, name, pattern)
    ctx.channel.basic_publish(name, "a.b", b"1")
    ctx.channel.queue_unbind(queue, name, "a.#")
    ctx.channel.basic_publish(name, "a.b", b"2")
    ctx.channel.basic_publish(name, "a.c", b"3")
    equal("bodies", drain(ctx.channel, queue), [b"1", b"2"])


@check("headers: x-match all, any, all-with-x, any-with-x, and none given")
def headers(ctx):
    base = {"format": "pdf", "pages": 3}
    modes = [dict(base, **{"x-match": mode, "x-kind": "k"}) for mode in ("all", "any", "all-with-x", "any-with-x")] + [base]
    name = ctx.exchange("headers")
    queues = []
    for arguments in modes:
        queues.append(ctx.queue())
        ctx.channel.queue_bind(queues[-1], name, "", arguments)
    for sent, expected in (
            ({"format": "pdf", "pages": 3}, [1, 1, 0, 1, 1]),
            ({"format": "pdf", "pages": 3, "x-kind": "k"}, [1, 1, 1, 1, 1]),
            ({"format": "pdf", "pages": 4}, [0, 1, 0, 1, 0]),
            ({"format": "txt", "x-kind": "k"}, [0, 0, 0, 1, 0]),
            ({"format": "pdf", "pages": "3"}, [0, 1, 0, 1, 0]),
            ({"other": 1}, [0, 0, 0, 0, 0]), (None, [0, 0, 0, 0, 0])):
        ctx.channel.basic_publish(name, "ignored", b"", pika.BasicProperties(headers=sent))
        equal("queues reached by %r" % sent, [len(drain(ctx.channel, queue)) for queue in queues], expected)


@check("headers: a void binding value matches presence; no arguments match everything")
def headers_void(ctx):
    name = ctx.exchange("headers")
    present, everything = ctx.queue(), ctx.queue()
    ctx.channel.queue_bind(present, name, "", {"x-match": "all", "seen": None})
    ctx.channel.queue_bind(everything, name, "")
    for sent in ({"seen": 7}, {"unseen": 7}):
        ctx.channel.basic_publish(name, "", b"", pika.BasicProperties(headers=sent))
    equal("counts", [len(drain(ctx.channel, queue)) for queue in (present, everything)], [1, 2])


@check("headers: a bad x-match is 406")
def headers_bad(ctx):
    queue = ctx.queue()
    closes_channel(406, "x-match", lambda: ctx.channel.queue_bind(queue, "amq.headers", "", {"x-match": "some"}))


@check("exchange.bind and unbind: chains, and no duplicates on two paths")
def exchange_bind(ctx):
    source, middle, target = ctx.exchange("topic"), ctx.exchange("direct"), ctx.exchange("fanout")
    queue = ctx.queue()
    ctx.channel.queue_bind(queue, target)
    ctx.channel.queue_bind(queue, source, "a.#")
    ctx.channel.exchange_bind(middle, source, "a.*")
    ctx.channel.exchange_bind(target, middle, "a.b")
    for key in ("a.b", "a.c", "b.b"):
        ctx.channel.basic_publish(source, key, key)
    equal("bodies", drain(ctx.channel, queue), [b"a.b", b"a.c"])
    ctx.channel.queue_unbind(queue, source, "a.#")
    ctx.channel.basic_publish(source, "a.b", b"1")
    ctx.channel.exchange_unbind(target, middle, "a.b")
    ctx.channel.basic_publish(source, "a.b", b"2")
    equal("bodies after unbind", drain(ctx.channel, queue), [b"1"])


@check("exchange.bind: a cycle ends")
def exchange_cycle(ctx):
    one, two, queue = ctx.exchange("fanout"), ctx.exchange("fanout"), ctx.queue()
    ctx.channel.exchange_bind(one, two)
    ctx.channel.exchange_bind(two, one)
    ctx.channel.queue_bind(queue, two)
    ctx.channel.basic_publish(one, "", b"once")
    equal("bodies", drain(ctx.channel, queue), [b"once"])


@check("exchange.bind: a missing end is 404; unbinding what is missing is fine")
def exchange_bind_missing(ctx):
    missing = ctx.name()
    closes_channel(404, NO_EXCHANGE % missing, lambda: ctx.connection.channel().exchange_bind("amq.fanout", missing))
    closes_channel(404, NO_EXCHANGE % missing, lambda: ctx.connection.channel().exchange_bind(missing, "amq.fanout"))
    ctx.channel.exchange_unbind("amq.fanout", missing)
    ctx.channel.exchange_unbind("amq.fanout", "amq.direct", "nothing")
