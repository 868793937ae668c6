'use strict';
// Exchanges, queues and bindings through the promise API.

const { check, equal, holds, closesChannel, event } = require('./harness');

/** Binds one queue per binding; publishes each key; returns the bodies that each queue got. */
async function routed(ctx, exchange, patterns, keys) {
  const queues = [];
  for (const pattern of patterns) {
    const queue = await ctx.queue();
    await ctx.channel.bindQueue(queue, exchange, pattern);
    queues.push(queue);
  }
  for (const key of keys) ctx.channel.publish(exchange, key, Buffer.from(key));
  const result = [];
  for (const queue of queues) result.push(await ctx.drain(queue));
  return result;
}

check('exchange: assert, check and delete of every type', async (ctx) => {
  for (const kind of ['direct', 'fanout', 'topic', 'headers']) {
    const name = await ctx.exchange(kind, { durable: kind === 'topic' });
    await ctx.channel.checkExchange(name);
    await ctx.channel.deleteExchange(name);
    await closesChannel(ctx, 404, `no exchange '${name}' in vhost '/'`, (channel) => channel.checkExchange(name));
  }
});

check('exchange: the predeclared ones exist', async (ctx) => {
  for (const name of ['amq.direct', 'amq.fanout', 'amq.topic', 'amq.headers', 'amq.match']) await ctx.channel.checkExchange(name);
});

check('exchange: redeclare with other properties is 406', async (ctx) => {
  const name = await ctx.exchange('direct');
  for (const [what, kind, given] of [['type', 'fanout', {}], ['durable', 'direct', { durable: true }],
    ['auto_delete', 'direct', { autoDelete: true }], ['internal', 'direct', { internal: true }]]) {
    await closesChannel(ctx, 406, `inequivalent arg '${what}' for exchange '${name}'`,
      (channel) => channel.assertExchange(name, kind, { durable: false, ...given }));
  }
});

check('exchange: reserved names and the default exchange are 403', async (ctx) => {
  await closesChannel(ctx, 403, "reserved prefix 'amq.*'", (channel) => channel.assertExchange('amq.interop', 'direct'));
  await closesChannel(ctx, 403, 'amq.fanout', (channel) => channel.deleteExchange('amq.fanout'));
  await closesChannel(ctx, 403, 'default exchange', (channel) => channel.deleteExchange(''));
});

check('exchange: delete if-unused of a bound one is 406; deleting a missing one is fine', async (ctx) => {
  const name = await ctx.exchange('direct');
  await ctx.channel.bindQueue(await ctx.queue(), name, 'key');
  await closesChannel(ctx, 406, 'in use', (channel) => channel.deleteExchange(name, { ifUnused: true }));
  await ctx.channel.deleteExchange(ctx.name());
});

check('exchange: publishing to an internal one is 403', async (ctx) => {
  const name = await ctx.exchange('fanout', { internal: true });
  await closesChannel(ctx, 403, 'internal exchange', (channel) => channel.publish(name, '', Buffer.from('x')));
});

check('exchange: auto-delete goes with its last binding', async (ctx) => {
  const name = await ctx.exchange('fanout', { autoDelete: true });
  const queue = await ctx.queue();
  await ctx.channel.bindQueue(queue, name, '');
  await ctx.channel.unbindQueue(queue, name, '');
  await closesChannel(ctx, 404, 'no exchange', (channel) => channel.checkExchange(name));
});

check('direct and fanout route', async (ctx) => {
  equal('direct', await routed(ctx, await ctx.exchange('direct'), ['a', 'b', '#'], ['a', 'b', 'c']), [['a'], ['b'], []]);
  equal('fanout', await routed(ctx, await ctx.exchange('fanout'), ['a', ''], ['a', 'c']), [['a', 'c'], ['a', 'c']]);
});

check('topic: * and # with their corner cases', async (ctx) => {
  const keys = ['', 'a', 'a.b', 'a.b.c', 'a..c', 'b.c', 'a.'];
  const expected = {
    '#': keys,
    '*': ['a'],
    'a.*': ['a.b', 'a.'],
    'a.#': ['a', 'a.b', 'a.b.c', 'a..c', 'a.'],
    '#.c': ['a.b.c', 'a..c', 'b.c'],
    'a.#.c': ['a.b.c', 'a..c'],
    'a.*.c': ['a.b.c', 'a..c'],
    '*.*': ['a.b', 'b.c', 'a.'],
    '': [''],
  };
  const got = await routed(ctx, await ctx.exchange('topic'), Object.keys(expected), keys);
  Object.keys(expected).forEach((pattern, i) => equal(`keys matched by '${pattern}'`, got[i], expected[pattern]));
});

check('headers: x-match all, any, all-with-x, any-with-x', async (ctx) => {
  const name = await ctx.exchange('headers');
  const queues = [];
  for (const mode of ['all', 'any', 'all-with-x', 'any-with-x']) {
    const queue = await ctx.queue();
    await ctx.channel.bindQueue(queue, name, '', { 'x-match': mode, format: 'pdf', pages: 3, 'x-kind': 'k' });
    queues.push(queue);
  }
  for (const [headers, expected] of [
    [{ format: 'pdf', pages: 3 }, [1, 1, 0, 1]], [{ format: 'pdf', pages: 3, 'x-kind': 'k' }, [1, 1, 1, 1]],
    [{ format: 'txt', 'x-kind': 'k' }, [0, 0, 0, 1]], [{ format: 'pdf', pages: 4 }, [0, 1, 0, 1]], [{}, [0, 0, 0, 0]]]) {
    ctx.channel.publish(name, '', Buffer.alloc(0), { headers });
    const counts = [];
    for (const queue of queues) counts.push((await ctx.drain(queue)).length);
    equal(`queues reached by ${JSON.stringify(headers)}`, counts, expected);
  }
});

check('exchange to exchange: bind and unbind', async (ctx) => {
  const source = await ctx.exchange('topic');
  const target = await ctx.exchange('fanout');
  const queue = await ctx.queue();
  await ctx.channel.bindQueue(queue, target, '');
  await ctx.channel.bindExchange(target, source, 'a.*');
  ctx.channel.publish(source, 'a.b', Buffer.from('1'));
  await ctx.channel.unbindExchange(target, source, 'a.*');
  ctx.channel.publish(source, 'a.b', Buffer.from('2'));
  equal('bodies', await ctx.drain(queue), ['1']);
  await closesChannel(ctx, 404, 'no exchange', (channel) => channel.bindExchange(target, ctx.name(), 'x'));
});

check('queue: durable, auto-delete and arguments; redeclare with other properties is 406', async (ctx) => {
  const name = await ctx.queue({ exclusive: false, arguments: { 'x-max-length': 10 } });
  await ctx.channel.assertQueue(name, { durable: false, arguments: { 'x-max-length': 10 } });
  for (const [what, given] of [['durable', { durable: true }], ['auto_delete', { autoDelete: true }], ['x-max-length', { arguments: { 'x-max-length': 9 } }]]) {
    await closesChannel(ctx, 406, `inequivalent arg '${what}'`,
      (channel) => channel.assertQueue(name, { durable: false, arguments: { 'x-max-length': 10 }, ...given }));
  }
});

check('queue: server-named, reserved, and missing', async (ctx) => {
  const { queue } = await ctx.channel.assertQueue('', { exclusive: true });
  holds('an amq.gen- name', queue.startsWith('amq.gen-'), queue);
  await closesChannel(ctx, 403, "reserved prefix 'amq.*'", (channel) => channel.assertQueue('amq.interop'));
  await closesChannel(ctx, 404, "no queue '", (channel) => channel.checkQueue(ctx.name()));
});

check('queue: exclusive is 405 from another connection, and goes with its own', async (ctx) => {
  const owner = await ctx.connect();
  const name = ctx.name();
  await (await owner.createChannel()).assertQueue(name, { exclusive: true });
  for (const action of [(ch) => ch.assertQueue(name, { exclusive: true }), (ch) => ch.checkQueue(name), (ch) => ch.purgeQueue(name),
    (ch) => ch.deleteQueue(name), (ch) => ch.consume(name, () => {}), (ch) => ch.get(name), (ch) => ch.bindQueue(name, 'amq.direct', 'x')]) {
    await closesChannel(ctx, 405, 'cannot obtain exclusive access to locked queue', action);
  }
  await owner.close();
  await closesChannel(ctx, 404, 'no queue', (channel) => channel.checkQueue(name));
});

check('queue: auto-delete goes when the last consumer cancels', async (ctx) => {
  const name = await ctx.queue({ exclusive: false, autoDelete: true });
  const { consumerTag } = await ctx.channel.consume(name, () => {});
  await ctx.channel.cancel(consumerTag);
  await closesChannel(ctx, 404, 'no queue', (channel) => channel.checkQueue(name));
});

check('queue: purge and delete count; if-unused and if-empty are 406', async (ctx) => {
  const name = await ctx.queue();
  await ctx.send(name, '1', '2', '3');
  await closesChannel(ctx, 406, 'not empty', (channel) => channel.deleteQueue(name, { ifEmpty: true }));
  equal('purged', (await ctx.channel.purgeQueue(name)).messageCount, 3);
  await ctx.channel.consume(name, () => {}, { consumerTag: 't' });
  await closesChannel(ctx, 406, 'in use', (channel) => channel.deleteQueue(name, { ifUnused: true }));
  await ctx.channel.cancel('t');
  await ctx.send(name, '4');
  equal('deleted', (await ctx.channel.deleteQueue(name)).messageCount, 1);
  equal('deleted again', (await ctx.channel.deleteQueue(name)).messageCount, 0);
});

check('queue: bind and unbind; missing ends', async (ctx) => {
  const queue = await ctx.queue();
  await ctx.channel.bindQueue(queue, 'amq.direct', queue);
  ctx.channel.publish('amq.direct', queue, Buffer.from('1'));
  await ctx.channel.unbindQueue(queue, 'amq.direct', queue);
  ctx.channel.publish('amq.direct', queue, Buffer.from('2'));
  equal('bodies', await ctx.drain(queue), ['1']);
  await ctx.channel.unbindQueue(queue, 'amq.direct', 'never bound');
  await closesChannel(ctx, 404, 'no queue', (channel) => channel.bindQueue(ctx.name(), 'amq.direct', ''));
  await closesChannel(ctx, 404, 'no exchange', (channel) => channel.bindQueue(queue, ctx.name(), ''));
});

check('queue: deleting it cancels its consumer with a null message', async (ctx) => {
  const queue = await ctx.queue();
  const cancelled = new Promise((resolve) => { ctx.channel.consume(queue, resolve); });
  await ctx.channel.checkQueue(queue);
  const other = await ctx.connection.createChannel();
  await other.deleteQueue(queue);
  equal('message', await cancelled, null);
  const closed = event(other, 'close');
  await other.close();
  await closed;
});
