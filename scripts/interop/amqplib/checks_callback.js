'use strict';
// The callback API. Steps are promisified call by call, so each check still exercises the callbacks.

const callbackApi = require('amqplib/callback_api');
const { promisify } = require('node:util');
const { check, equal, holds, waitUntil, event, options } = require('./harness');

/** Opens a callback-API connection and a channel; runs body; closes. */
function withChannel(body, kind = 'createChannel') {
  return async (ctx) => {
    const connection = await promisify(callbackApi.connect)(options({}), {});
    connection.on('error', () => {});
    try {
      const channel = await promisify(connection[kind].bind(connection))();
      channel.on('error', () => {});
      const call = (method, ...values) => promisify(channel[method].bind(channel))(...values);
      await body(ctx, channel, call, connection);
    } finally {
      await promisify(connection.close.bind(connection))().catch(() => {});
    }
  };
}

check('callback: open, channel, close', withChannel(async (ctx, channel, call) => {
  await call('close');
}));

check('callback: wrong password is 403', async () => {
  const error = await new Promise((resolve) => callbackApi.connect(options({ password: 'not-the-password' }), {}, (failure) => resolve(failure)));
  holds('a 403', error && error.message.includes('403'), error && error.message);
});

check('callback: declare, bind, publish, get, unbind, purge, delete', withChannel(async (ctx, channel, call) => {
  const exchange = ctx.name();
  await call('assertExchange', exchange, 'topic', { autoDelete: true, durable: false });
  const { queue } = await call('assertQueue', '', { exclusive: true });
  await call('bindQueue', queue, exchange, 'a.#', {});
  channel.publish(exchange, 'a.b.c', Buffer.from('1'));
  channel.publish(exchange, 'a', Buffer.from('2'));
  const message = await call('get', queue, { noAck: true });
  equal('body', message.content.toString(), '1');
  equal('purged', (await call('purgeQueue', queue)).messageCount, 1);
  equal('empty', await call('get', queue, {}), false);
  equal('deleted', (await call('deleteQueue', queue, {})).messageCount, 0);
}));

check('callback: exchange to exchange', withChannel(async (ctx, channel, call) => {
  const source = ctx.name();
  const target = ctx.name();
  await call('assertExchange', source, 'direct', { autoDelete: true, durable: false });
  await call('assertExchange', target, 'fanout', { autoDelete: true, durable: false });
  const { queue } = await call('assertQueue', '', { exclusive: true });
  await call('bindQueue', queue, target, '', {});
  await call('bindExchange', target, source, 'k', {});
  channel.publish(source, 'k', Buffer.from('1'));
  equal('ready', (await call('checkQueue', queue)).messageCount, 1);
  await call('unbindExchange', target, source, 'k', {});
  await call('unbindQueue', queue, target, '', {});
}));

check('callback: consume, ack, cancel', withChannel(async (ctx, channel, call) => {
  const { queue } = await call('assertQueue', '', { exclusive: true });
  const bodies = [];
  await call('prefetch', 1, false);
  const { consumerTag } = await call('consume', queue, (message) => {
    bodies.push(Number(message.content));
    channel.ack(message);
  }, { consumerTag: 'tag' });
  equal('tag', consumerTag, 'tag');
  for (let i = 0; i < 100; i++) channel.sendToQueue(queue, Buffer.from(String(i)));
  await waitUntil('a hundred messages', () => bodies.length === 100);
  equal('bodies', bodies, Array.from({ length: 100 }, (_, i) => i));
  equal('cancelled', (await call('cancel', 'tag')).consumerTag, 'tag');
}));

check('callback: nack with requeue, recover', withChannel(async (ctx, channel, call) => {
  const { queue } = await call('assertQueue', '', { exclusive: true });
  channel.sendToQueue(queue, Buffer.from('1'));
  channel.nack(await call('get', queue, {}), false, true);
  equal('redelivered', (await call('get', queue, {})).fields.redelivered, true);
  await call('recover');
  equal('recovered', (await call('get', queue, {})).fields.redelivered, true);
}));

check('callback: confirm channel', withChannel(async (ctx, channel, call) => {
  const { queue } = await call('assertQueue', '', { exclusive: true });
  const results = [];
  for (let i = 0; i < 100; i++) channel.sendToQueue(queue, Buffer.from('x'), {}, (error) => results.push(error));
  await call('waitForConfirms');
  equal('confirmed', results, new Array(100).fill(null));
}, 'createConfirmChannel'));

check('callback: a missing queue is 404 and closes only the channel', withChannel(async (ctx, channel, call, connection) => {
  const closed = event(channel, 'error');
  await call('checkQueue', ctx.name()).catch(() => {});
  equal('code', (await closed).code, 404);
  await promisify(connection.createChannel.bind(connection))();
}));

check('callback: consumer cancelled by the server', withChannel(async (ctx, channel, call) => {
  const { queue } = await call('assertQueue', '', { exclusive: true });
  const messages = [];
  await call('consume', queue, (message) => messages.push(message), {});
  await call('deleteQueue', queue, {});
  await waitUntil('the cancellation', () => messages.length === 1);
  equal('message', messages, [null]);
}));

check('callback: mandatory return', withChannel(async (ctx, channel) => {
  const returned = event(channel, 'return');
  channel.publish('', ctx.name(), Buffer.from('x'), { mandatory: true });
  equal('code', (await returned).fields.replyCode, 312);
}));
