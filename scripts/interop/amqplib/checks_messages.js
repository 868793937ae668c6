'use strict';
// Publishing, consuming and acknowledging through the promise API.

const { check, equal, holds, waitUntil, event, closesChannel, closesConnection } = require('./harness');

const numbers = (count) => Array.from({ length: count }, (_, i) => String(i));

/** A consumer that keeps what it gets. */
async function sink(channel, queue, options) {
  const messages = [];
  const { consumerTag } = await channel.consume(queue, (message) => messages.push(message), options);
  return { messages, consumerTag, bodies: () => messages.map((message) => message.content.toString()) };
}

/** Gets until empty without acking; returns [body, redelivered]. */
async function got(channel, queue) {
  const result = [];
  for (;;) {
    const message = await channel.get(queue);
    if (message === false) return result;
    result.push([message.content.toString(), message.fields.redelivered]);
  }
}

check('body: 0 and 1 bytes, around the frame size, 1 MiB, 10 MiB', async (ctx) => {
  const queue = await ctx.queue();
  const frameBody = ctx.connection.connection.frameMax - 8;
  for (const size of [0, 1, frameBody - 1, frameBody, frameBody + 1, 1 << 20, 10 << 20]) {
    const body = Buffer.alloc(size, `${size}-abc`);
    ctx.channel.sendToQueue(queue, body);
    const message = await ctx.channel.get(queue, { noAck: true });
    holds(`a body of ${size} bytes unchanged`, message && message.content.equals(body), message && message.content.length);
  }
});

check('properties: all come back', async (ctx) => {
  const queue = await ctx.queue();
  const sent = { contentType: 'text/plain', contentEncoding: 'gzip', headers: { k: 'v' }, deliveryMode: 2, priority: 7, correlationId: 'c',
    replyTo: 'r', expiration: '600000', messageId: 'm', timestamp: 1234567890, type: 't', userId: 'guest', appId: 'a' };
  ctx.channel.sendToQueue(queue, Buffer.from('x'), sent);
  const { properties } = await ctx.channel.get(queue, { noAck: true });
  for (const [key, value] of Object.entries(sent)) equal(key, properties[key], value);
});

check('headers: every type amqplib can send comes back', async (ctx) => {
  const queue = await ctx.queue();
  const typed = (type, value) => ({ '!': type, value });
  const headers = {
    text: 'grüße', empty: '', true: true, false: false, void: null, bytes: Buffer.from([0, 255, 206]),
    int8: typed('int8', -128), uint8: typed('uint8', 255), int16: typed('int16', -32768), uint16: typed('uint16', 65535),
    int32: typed('int32', -2147483648), uint32: typed('uint32', 4294967295), int64: typed('int64', -9007199254740991),
    float: typed('float', 1.5), double: -2.5e-300, decimal: typed('decimal', { places: 3, digits: 12345 }),
    time: typed('timestamp', 1582979696), array: [1, 'two', [3.5, null], { four: 4 }], table: { a: { b: { c: [true] } } }, none: {}, nothing: [],
  };
  ctx.channel.sendToQueue(queue, Buffer.from('x'), { headers });
  const { properties } = await ctx.channel.get(queue, { noAck: true });
  equal('names', Object.keys(properties.headers).sort(), Object.keys(headers).sort());
  for (const [key, value] of Object.entries(headers)) {
    const exotic = value && value['!'] && !['timestamp', 'decimal'].includes(value['!']);
    equal(`header ${key}`, properties.headers[key], exotic ? value.value : value);
  }
});

check('mandatory: an unroutable message returns with 312, headers and body', async (ctx) => {
  const returned = event(ctx.channel, 'return');
  ctx.channel.publish('amq.direct', ctx.name(), Buffer.from('back'), { mandatory: true, headers: { n: 1 } });
  const message = await returned;
  equal('return', [message.fields.replyCode, message.fields.replyText, message.fields.exchange, message.properties.headers, message.content.toString()],
    [312, 'NO_ROUTE', 'amq.direct', { n: 1 }, 'back']);
});

check('publish: a missing exchange is 404, other channels live on', async (ctx) => {
  await closesChannel(ctx, 404, 'no exchange', (channel) => channel.publish(ctx.name(), '', Buffer.from('x')));
  const queue = await ctx.queue();
  await ctx.send(queue, 'alive');
  equal('bodies', await ctx.drain(queue), ['alive']);
});

check('confirm: five hundred publishes, each confirmed once and in order', async (ctx) => {
  const channel = await ctx.connection.createConfirmChannel();
  const queue = await ctx.queue();
  const order = [];
  for (let i = 0; i < 500; i++) {
    channel.sendToQueue(queue, Buffer.from(String(i)), { persistent: i % 2 === 0 }, (error) => order.push(error ? `nack ${i}` : i));
  }
  await channel.waitForConfirms();
  equal('confirms', [...order].sort((a, b) => a - b), Array.from({ length: 500 }, (_, i) => i));
  equal('ready', await ctx.ready(queue), 500);
});

check('confirm: a return comes before its ack', async (ctx) => {
  const channel = await ctx.connection.createConfirmChannel();
  const events = [];
  channel.on('return', (message) => events.push(message.fields.replyCode));
  await new Promise((resolve) => {
    channel.publish('', ctx.name(), Buffer.from('x'), { mandatory: true }, () => resolve(events.push('ack')));
  });
  equal('events', events, [312, 'ack']);
});

check('confirm: a persistent message to a durable queue', async (ctx) => {
  const queue = await ctx.queue({ exclusive: false, durable: true });
  const channel = await ctx.connection.createConfirmChannel();
  channel.sendToQueue(queue, Buffer.from('x'), { persistent: true });
  await channel.waitForConfirms();
  equal('bodies', await ctx.drain(queue), ['x']);
});

check('get: order, tags, counts, empty; a missing queue is 404', async (ctx) => {
  const queue = await ctx.queue();
  await ctx.send(queue, ...numbers(3));
  for (let i = 0; i < 3; i++) {
    const { fields, content } = await ctx.channel.get(queue);
    equal('get-ok', [content.toString(), fields.deliveryTag, fields.messageCount, fields.redelivered, fields.routingKey], [String(i), i + 1, 2 - i, false, queue]);
  }
  equal('get-empty', await ctx.channel.get(queue), false);
  await closesChannel(ctx, 404, 'no queue', (channel) => channel.get(ctx.name()));
});

check('consume: a thousand in order, acked with multiple', async (ctx) => {
  const queue = await ctx.queue();
  const { messages, bodies } = await sink(ctx.channel, queue);
  await ctx.send(queue, ...numbers(1000));
  await waitUntil('a thousand messages', () => messages.length === 1000);
  equal('bodies', bodies(), numbers(1000));
  ctx.channel.ack(messages[999], true);
  await ctx.channel.close();
  ctx.channel = await ctx.connection.createChannel();
  equal('left', await ctx.ready(queue), 0);
});

check('consume: own and generated tags; a tag used twice is 530', async (ctx) => {
  const queue = await ctx.queue();
  equal('own', (await ctx.channel.consume(queue, () => {}, { consumerTag: 'mine' })).consumerTag, 'mine');
  const generated = (await ctx.channel.consume(queue, () => {})).consumerTag;
  holds('an amq.ctag- tag', generated.startsWith('amq.ctag-'), generated);
  await closesConnection(ctx, 530, "attempt to reuse consumer tag 't'", async (channel) => {
    const own = (await channel.assertQueue('', { exclusive: true })).queue;
    await channel.consume(own, () => {}, { consumerTag: 't' });
    await channel.consume(own, () => {}, { consumerTag: 't' });
  });
});

check('consume: exclusive is 403 for a second consumer; a missing queue is 404', async (ctx) => {
  const queue = await ctx.queue();
  await ctx.channel.consume(queue, () => {}, { exclusive: true });
  await closesChannel(ctx, 403, 'in exclusive use', (channel) => channel.consume(queue, () => {}));
  await closesChannel(ctx, 404, 'no queue', (channel) => channel.consume(ctx.name(), () => {}));
});

check('cancel: nothing is delivered afterwards', async (ctx) => {
  const queue = await ctx.queue();
  const { messages, consumerTag } = await sink(ctx.channel, queue, { noAck: true });
  await ctx.channel.cancel(consumerTag);
  await ctx.send(queue, '1');
  equal('delivered', messages.length, 0);
  equal('ready', await ctx.ready(queue), 1);
});

check('two consumers take turns', async (ctx) => {
  const queue = await ctx.queue();
  const sinks = [];
  for (let i = 0; i < 2; i++) sinks.push(await sink(await ctx.connection.createChannel(), queue, { noAck: true }));
  await ctx.send(queue, ...numbers(20));
  await waitUntil('twenty messages', () => sinks[0].messages.length + sinks[1].messages.length === 20);
  equal('shares', sinks.map(({ messages }) => messages.length), [10, 10]);
});

check('ack: multiple, ackAll, unknown and repeated tags', async (ctx) => {
  const queue = await ctx.queue();
  await ctx.send(queue, ...numbers(5));
  const channel = await ctx.connection.createChannel();
  const messages = [];
  for (let i = 0; i < 4; i++) messages.push(await channel.get(queue));
  channel.ack(messages[2]);
  channel.ack(messages[1], true);
  await channel.close();
  equal('left', await got(ctx.channel, queue), [['3', true], ['4', false]]);
  ctx.channel.ackAll();
  await closesChannel(ctx, 406, 'unknown delivery tag 99', (ch) => ch.ack({ fields: { deliveryTag: 99 } }));
  await ctx.send(queue, 'x');
  await closesChannel(ctx, 406, 'unknown delivery tag 1', async (ch) => {
    const message = await ch.get(queue);
    ch.ack(message);
    ch.ack(message);
  });
});

check('nack and reject: requeued messages keep their position and are flagged', async (ctx) => {
  const queue = await ctx.queue();
  await ctx.send(queue, ...numbers(6));
  const messages = [];
  for (let i = 0; i < 5; i++) messages.push(await ctx.channel.get(queue));
  ctx.channel.reject(messages[0], false);
  ctx.channel.reject(messages[3], true);
  ctx.channel.nack(messages[2], true, true);
  ctx.channel.nack(messages[4], false, false);
  equal('again', await got(ctx.channel, queue), [['1', true], ['2', true], ['3', true], ['5', false]]);
  ctx.channel.nackAll(false);
  equal('left', await ctx.ready(queue), 0);
});

check('recover: unacked messages come again in order, flagged', async (ctx) => {
  const queue = await ctx.queue();
  await ctx.send(queue, ...numbers(3));
  await got(ctx.channel, queue);
  await ctx.channel.recover();
  equal('again', await got(ctx.channel, queue), numbers(3).map((body) => [body, true]));
});

check('prefetch: exact per consumer', async (ctx) => {
  const queue = await ctx.queue();
  await ctx.send(queue, ...numbers(10));
  const channel = await ctx.connection.createChannel();
  await channel.prefetch(3);
  const { messages, bodies } = await sink(channel, queue);
  await waitUntil('three messages', () => messages.length >= 3);
  for (let i = 0; i < 3; i++) equal('ready', await ctx.ready(queue, channel), 7);
  equal('bodies', bodies(), ['0', '1', '2']);
  channel.ack(messages[1]);
  await waitUntil('a fourth', () => messages.length >= 4);
  equal('ready', await ctx.ready(queue, channel), 6);
  equal('bodies', bodies(), ['0', '1', '2', '3']);
});

check('prefetch: global is shared by the channel', async (ctx) => {
  const channel = await ctx.connection.createChannel();
  await channel.prefetch(3, true);
  const queues = [await ctx.queue(), await ctx.queue()];
  const sinks = [];
  for (const queue of queues) sinks.push(await sink(channel, queue));
  for (const queue of queues) await ctx.send(queue, ...numbers(5));
  const delivered = () => sinks[0].messages.length + sinks[1].messages.length;
  await waitUntil('three messages', () => delivered() >= 3);
  for (let i = 0; i < 3; i++) equal('ready', (await ctx.ready(queues[0], channel)) + (await ctx.ready(queues[1], channel)), 7);
  equal('delivered', delivered(), 3);
});

check('closing: a channel, then a connection, requeue unacked messages in order', async (ctx) => {
  const queue = await ctx.queue({ exclusive: false });
  await ctx.send(queue, ...numbers(4));
  const channel = await ctx.connection.createChannel();
  for (let i = 0; i < 2; i++) await channel.get(queue);
  await channel.close();
  const other = await ctx.connect();
  ctx.connections.pop(); // it dies below; its close would wait forever
  const { messages } = await sink(await other.createChannel(), queue);
  await waitUntil('four messages', () => messages.length === 4);
  equal('redelivered', messages.map((message) => message.fields.redelivered), [true, true, false, false]);
  other.connection.stream.destroy(); // no close handshake
  await waitUntil('four ready', async () => (await ctx.ready(queue)) === 4);
  equal('again', await got(ctx.channel, queue), numbers(4).map((body) => [body, true]));
});
