'use strict';
// AMQP over WebSocket, checked with @cloudamqp/amqp-client: what browsers use. Node.js has no
// WebSocket of its own before version 22, so the one of the module ws stands in.

const crypto = require('node:crypto');
const fs = require('node:fs');
const { isDeepStrictEqual, inspect } = require('node:util');
globalThis.WebSocket = require('ws');
const { AMQPWebSocketClient } = require('@cloudamqp/amqp-client/amqp-websocket-client');

const URL_TEXT = process.env.AMQP_WS_URL || 'ws://127.0.0.1:15672/';
const WAIT_MS_MAX = 10000;
const checks = [];

/** Registers an async function as a check under a name that says what it proves. */
function check(name, run) {
  checks.push({ name, run });
}

/** Throws unless got deeply equals expected. */
function equal(what, got, expected) {
  if (!isDeepStrictEqual(got, expected)) throw new Error(`${what}: expected ${inspect(expected)}, got ${inspect(got)}`);
}

/** Rejects when a promise takes too long. */
function within(what, promise) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out waiting for ${what}`)), WAIT_MS_MAX);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

/** Resolves with the error that a promise is rejected with, as text. */
async function refusal(promise) {
  try {
    await within('a refusal', promise);
  } catch (error) {
    return error.message || inspect(error);
  }
  throw new Error('it was not refused');
}

const unique = () => `ws-${crypto.randomBytes(6).toString('hex')}`;

/** Runs use with a connection, which is closed behind it. */
async function connected(use, options = {}) {
  const client = new AMQPWebSocketClient({ url: URL_TEXT, name: 'interop', logger: null, ...options });
  client.onerror = () => {};
  await within('a connection', client.connect());
  try {
    await use(client);
  } finally {
    if (!client.closed) await within('the close', client.close());
  }
}

/** Declares an exclusive queue and returns its operations. */
async function temporary(ch) {
  const { name } = await ch.queueDeclare(unique(), { exclusive: true });
  return {
    name,
    publish: (body, properties) => ch.basicPublish('', name, body, properties),
    get: (options) => within('a message', ch.basicGet(name, options)),
    subscribe: (options, handle) => ch.basicConsume(name, options, handle),
    bind: (exchange, key) => ch.queueBind(name, exchange, key),
  };
}

/** Runs use with a channel of its own. */
const channel = (use, options) => connected(async (client) => use(await client.channel(), client), options);

/** Consumes n messages and resolves with their bodies. */
async function consume(queue, n, options) {
  const bodies = [];
  let done;
  const all = new Promise((resolve) => { done = resolve; });
  const consumer = await queue.subscribe(options, (message) => {
    bodies.push(message.bodyString());
    if (!options.noAck) message.ack();
    if (bodies.length === n) done();
  });
  await within(`${n} messages`, all);
  await consumer.cancel();
  return bodies;
}

check('a connection opens and closes', () => connected(async () => {}));

for (const frameMax of [8192, 16384, 131072]) {
  check(`bodies of many sizes come back whole with frame_max ${frameMax}`, () => channel(async (ch) => {
    const queue = await temporary(ch);
    for (const size of [0, 1, 125, 126, 4000, 4096, 65535, 70000, 300000]) {
      const body = 'x'.repeat(size);
      await queue.publish(body, { deliveryMode: 1 });
      const message = await queue.get({ noAck: true });
      equal(`a body of ${size} bytes`, message.bodyString() ?? '', body);
    }
  }, { frameMax }));
}

check('ten thousand messages keep their order', () => channel(async (ch) => {
  const queue = await temporary(ch);
  const sent = Array.from({ length: 10000 }, (_, i) => `message ${i}`);
  for (const body of sent) await ch.basicPublish('', queue.name, body);
  equal('bodies', await consume(queue, sent.length, { noAck: true }), sent);
}));

check('acknowledged messages are gone and others come again', () => channel(async (ch) => {
  const queue = await temporary(ch);
  for (const body of ['a', 'b', 'c']) await queue.publish(body);
  await ch.prefetch(10);
  const first = await queue.get({ noAck: false });
  const second = await queue.get({ noAck: false });
  await first.ack();
  await second.nack(true);
  const again = await queue.get({ noAck: true });
  equal('body', again.bodyString(), 'b');
  equal('redelivered', again.redelivered, true);
}));

check('publishes are confirmed', () => channel(async (ch) => {
  await ch.confirmSelect();
  const queue = await temporary(ch);
  const tags = await within('confirms', Promise.all(['1', '2', '3'].map((body) => ch.basicPublish('', queue.name, body))));
  equal('tags', tags.length, 3);
  equal('messages', (await queue.get({ noAck: true })).bodyString(), '1');
}));

check('a mandatory message without a queue is returned', () => channel(async (ch) => {
  const returned = new Promise((resolve) => { ch.onReturn = resolve; });
  await ch.basicPublish('', unique(), 'nowhere', {}, true);
  const message = await within('the return', returned);
  equal('code', message.replyCode, 312);
  equal('body', message.bodyString(), 'nowhere');
}));

check('properties and headers come back', () => channel(async (ch) => {
  const queue = await temporary(ch);
  const headers = { text: 'ö', number: 7, yes: true, list: [1, 'two'], table: { a: 1 } };
  await queue.publish('x', { contentType: 'text/plain', correlationId: 'c', priority: 3, headers });
  const { properties } = await queue.get({ noAck: true });
  equal('content type', properties.contentType, 'text/plain');
  equal('headers', properties.headers, headers);
}));

check('messages are routed by topic', () => channel(async (ch) => {
  const exchange = unique();
  await ch.exchangeDeclare(exchange, 'topic', { autoDelete: true, durable: false });
  const queue = await temporary(ch);
  await queue.bind(exchange, 'a.*.c');
  await ch.basicPublish(exchange, 'a.b.c', 'yes');
  await ch.basicPublish(exchange, 'a.b.d', 'no');
  equal('bodies', await consume(queue, 1, { noAck: true }), ['yes']);
}));

check('a channel error closes the channel only', () => connected(async (client) => {
  const ch = await client.channel();
  const text = await refusal(ch.queueDeclare(unique(), { passive: true }));
  equal('a 404', /404|NOT_FOUND/.test(text), true);
  const other = await client.channel();
  await temporary(other);
}));

check('a wrong password is refused', async () => {
  const client = new AMQPWebSocketClient({ url: URL_TEXT, password: 'wrong', logger: null });
  client.onerror = () => {};
  await refusal(client.connect());
});

check('an unknown virtual host is refused', async () => {
  const client = new AMQPWebSocketClient({ url: URL_TEXT, vhost: unique(), logger: null });
  client.onerror = () => {};
  await refusal(client.connect());
});

check('a connection with a heartbeat lives through silence', () => channel(async (ch) => {
  await new Promise((resolve) => setTimeout(resolve, 3000)); // three times the heartbeat
  await temporary(ch);
}, { heartbeat: 1 }));

check('another sub-protocol only is refused', async () => {
  const socket = new WebSocket(URL_TEXT, 'mqtt');
  const failed = new Promise((resolve, reject) => {
    socket.onerror = (event) => resolve(event.message);
    socket.onopen = () => reject(new Error('it was not refused'));
  });
  equal('status', (await within('a refusal', failed)).includes('400'), true);
});

/** Appends a line to the file that scores reads; without one, nothing. */
function report(...fields) {
  const file = process.env.INTEROP_RESULTS;
  if (file) fs.appendFileSync(file, `${fields.map((field) => String(field).replace(/\s+/g, ' ')).join('\t')}\n`);
}

async function main() {
  const words = process.argv.slice(2);
  let passed = 0;
  let failed = 0;
  const version = (name) => JSON.parse(fs.readFileSync(`${__dirname}/node_modules/${name}/package.json`)).version;
  report('client', `@cloudamqp/amqp-client ${version('@cloudamqp/amqp-client')}`);
  for (const { name, run } of checks) {
    if (words.length > 0 && !words.some((word) => name.includes(word))) continue;
    try {
      await run();
      passed++;
      report('pass', name);
      if (process.env.VERBOSE) console.log(`ok   ${name}`);
    } catch (error) {
      failed++;
      report('fail', name, error.message || inspect(error));
      console.log(`FAIL ${name}\n     ${error.message || inspect(error)}`);
    }
  }
  report('done');
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed > 0 || passed === 0 ? 1 : 0);
}

main();
