'use strict';
// Connections and channels through the promise API.

const path = require('node:path');
const amqp = require('amqplib');
const credentials = require(path.join(path.dirname(require.resolve('amqplib')), 'lib', 'credentials.js'));
const { check, equal, holds, event, closesChannel, closesConnection, options } = require('./harness');

async function refused(action) {
  let connection;
  try {
    connection = await action();
  } catch (error) {
    return error.message;
  }
  await connection.close();
  throw new Error('expected the connection to be refused, but it opened');
}

check('connection: URL string, open and close', async () => {
  const connection = await amqp.connect(process.env.AMQP_URL || 'amqp://guest:guest@127.0.0.1:5672/');
  const closed = event(connection, 'close');
  await connection.close();
  await closed;
});

check('connection: AMQPLAIN', async (ctx) => {
  const { username, password } = options({});
  const connection = await ctx.connect({}, { credentials: credentials.amqplain(username, password) });
  await (await connection.createChannel()).assertQueue('', { exclusive: true });
});

check('connection: wrong password is 403, by PLAIN and AMQPLAIN', async (ctx) => {
  for (const mechanism of ['plain', 'amqplain']) {
    const text = await refused(() => ctx.connect({}, { credentials: credentials[mechanism]('guest', 'not-the-password') }));
    holds('a 403 naming the mechanism', text.includes('403') && text.includes(`mechanism ${mechanism.toUpperCase()}`), text);
  }
});

check('connection: an unknown vhost is answered with connection.close', async (ctx) => {
  const text = await refused(() => ctx.connect({ vhost: 'no-such-vhost' }));
  holds('a connection.close', text.includes('ConnectionClose'), text); // amqplib hides its code here
});

check('connection: server properties and capabilities', async (ctx) => {
  const properties = ctx.connection.connection.serverProperties;
  for (const key of ['product', 'version', 'platform']) holds(`a text as ${key}`, typeof properties[key] === 'string', properties[key]);
  for (const key of ['publisher_confirms', 'exchange_exchange_bindings', 'basic.nack', 'consumer_cancel_notify',
    'authentication_failure_close', 'per_consumer_qos']) {
    equal(`capability ${key}`, properties.capabilities[key], true);
  }
});

check('connection: client properties are accepted', async (ctx) => {
  const connection = await ctx.connect({}, { clientProperties: { connection_name: 'interop', nested: { list: [1, 'two', null] } } });
  await connection.createChannel();
});

check('tune: frame_max 4096 is kept; larger bodies are split', async (ctx) => {
  const connection = await ctx.connect({ frameMax: 4096 });
  equal('frameMax', connection.connection.frameMax, 4096);
  const channel = await connection.createChannel();
  const queue = (await channel.assertQueue('', { exclusive: true })).queue;
  const sizes = [4087, 4088, 4089, 8176, 8177, 100000];
  for (const size of sizes) channel.sendToQueue(queue, Buffer.alloc(size, size % 251));
  for (const size of sizes) {
    const message = await channel.get(queue, { noAck: true });
    holds(`a body of ${size} bytes`, message && message.content.equals(Buffer.alloc(size, size % 251)), message && message.content.length);
  }
});

check('tune: channel_max of the client is kept', async (ctx) => {
  const connection = await ctx.connect({ channelMax: 3 });
  equal('channelMax', connection.connection.channelMax, 3);
  for (let i = 0; i < 3; i++) await connection.createChannel();
});

check('heartbeat: an idle connection with heartbeat 1 s stays open', async (ctx) => {
  const connection = await ctx.connect({ heartbeat: 1 });
  equal('heartbeat', connection.connection.heartbeat, 1);
  let failed = null;
  connection.on('error', (error) => { failed = error; });
  await new Promise((resolve) => setTimeout(resolve, 3500)); // the time itself is what is checked
  equal('error', failed, null);
  await connection.createChannel();
});

check('heartbeat: a client that falls silent is cut', async (ctx) => {
  const connection = await ctx.connect({ heartbeat: 1 });
  connection.connection.heartbeater.clear(); // neither sends nor checks any more
  await event(connection, 'error');
});

check('channel: fifty open, close, and their numbers are reused', async (ctx) => {
  const channels = [];
  for (let i = 0; i < 50; i++) channels.push(await ctx.connection.createChannel());
  for (const channel of channels) await channel.close();
  const again = await ctx.connection.createChannel();
  equal('number', again.ch, channels[0].ch);
  await again.assertQueue('', { exclusive: true });
});

check('channel: an error closes it alone; its number can be reused', async (ctx) => {
  const victim = await ctx.connection.createChannel();
  const closed = event(victim, 'error');
  await victim.checkQueue(ctx.name()).catch(() => {});
  equal('code', (await closed).code, 404);
  const again = await ctx.connection.createChannel();
  equal('number', again.ch, victim.ch);
  const queue = await ctx.queue();
  again.sendToQueue(queue, Buffer.from('after'));
  await again.checkQueue(queue);
  equal('bodies', await ctx.drain(queue), ['after']);
});

check('connection: an error on one leaves another untouched', async (ctx) => {
  const queue = await ctx.queue();
  await closesConnection(ctx, 503, "unknown exchange type 'nonsense'", (channel) => channel.assertExchange(ctx.name(), 'nonsense'));
  await ctx.send(queue, 'alive');
  equal('bodies', await ctx.drain(queue), ['alive']);
});

check('channel: pipelined calls are answered in order', async (ctx) => {
  const names = Array.from({ length: 100 }, () => ctx.name());
  const answers = await Promise.all(names.map((name) => ctx.channel.assertQueue(name, { exclusive: true, durable: false })));
  equal('queues', answers.map((answer) => answer.queue), names);
});

check('channel: pipelined calls behind an error are not answered', async (ctx) => {
  await closesChannel(ctx, 404, 'no queue', (channel) => {
    const calls = [channel.checkQueue(ctx.name()), channel.assertQueue('', { exclusive: true })];
    return Promise.all(calls.map((call) => call.catch(() => {})));
  });
});
