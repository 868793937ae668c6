'use strict';
// Check runner for the amqplib suite: registration, expectations, time limits, unique names.

const crypto = require('node:crypto');
const fs = require('node:fs');
const { isDeepStrictEqual, inspect } = require('node:util');
const amqp = require('amqplib');

const URL_TEXT = process.env.AMQP_URL || 'amqp://guest:guest@127.0.0.1:5672/';
const CHECK_MS_MAX = 15000; // one check; the suite as a whole stays under a minute
const WAIT_MS_MAX = 10000; // one wait for a condition inside a check
const checks = [];

/** Registers an async function (Context) as a check under a name that says what it proves. */
function check(name, run) {
  checks.push({ name, run });
}

/** Throws unless got deeply equals expected. */
function equal(what, got, expected) {
  if (!isDeepStrictEqual(got, expected)) {
    throw new Error(`${what}: expected ${inspect(expected, { depth: 8 })}, got ${inspect(got, { depth: 8 })}`);
  }
}

/** Throws unless condition is true; shows got. */
function holds(what, condition, got) {
  if (!condition) throw new Error(`expected ${what}, got ${inspect(got)}`);
}

/** Polls a condition, which may be asynchronous. */
async function waitUntil(what, condition) {
  const deadline = Date.now() + WAIT_MS_MAX;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`timed out waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Resolves with the arguments of the emitter's next event of that name, one value or an array. */
function event(emitter, name) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`timed out waiting for the event ${name}`)), WAIT_MS_MAX);
    emitter.once(name, (...values) => {
      clearTimeout(timer);
      resolve(values.length > 1 ? values : values[0]);
    });
  });
}

/**
 * Runs action on a fresh channel; that channel must be closed by the server with this code and text.
 * The error arrives as an event, whether action is a call with an answer or a publish.
 */
async function closesChannel(ctx, code, text, action) {
  const channel = await ctx.connection.createChannel();
  const closed = event(channel, 'error');
  Promise.resolve(action(channel)).catch(() => {}); // the same error again
  verify(await closed, code, text);
}

/** As closesChannel, for a connection error; action gets a channel of a connection of its own. */
async function closesConnection(ctx, code, text, action) {
  const connection = await ctx.connect();
  const channel = await connection.createChannel();
  channel.on('error', () => {});
  const closed = event(connection, 'error');
  Promise.resolve(action(channel)).catch(() => {});
  verify(await closed, code, text);
}

function verify(error, code, text) {
  equal('reply code', error.code, code);
  holds(`a text containing ${inspect(text)}`, error.message.includes(text), error.message);
}

/** $AMQP_URL as the object that amqplib takes, with fields replaced. */
function options(overrides) {
  const url = new URL(URL_TEXT);
  const path = decodeURIComponent(url.pathname.slice(1));
  return {
    protocol: 'amqp',
    hostname: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || 5672),
    username: decodeURIComponent(url.username || 'guest'),
    password: decodeURIComponent(url.password || 'guest'),
    vhost: path === '' ? '/' : path,
    ...overrides,
  };
}

/** What a check works with: a connection, a channel, unique names, and clean-up. */
class Context {
  constructor() {
    this.prefix = `interop-amqplib-${crypto.randomBytes(6).toString('hex')}`;
    this.count = 0;
    this.connections = [];
    this.cleanup = [];
  }

  async open() {
    this.connection = await this.connect();
    this.channel = await this.connection.createChannel();
    return this;
  }

  async connect(overrides = {}, socketOptions = {}) {
    const connection = await amqp.connect(options(overrides), { timeout: WAIT_MS_MAX, ...socketOptions });
    connection.on('error', () => {}); // provoked ones are awaited where they are expected
    this.connections.push(connection);
    return connection;
  }

  name() {
    this.count += 1;
    return `${this.prefix}-${this.count}`;
  }

  /** Declares a queue (exclusive unless said otherwise) and returns its name. */
  async queue(queueOptions = {}) {
    const name = this.name();
    const merged = { exclusive: true, durable: false, ...queueOptions };
    await this.channel.assertQueue(name, merged);
    if (!merged.exclusive) this.cleanup.push((channel) => channel.deleteQueue(name));
    return name;
  }

  /** Declares an exchange, deleted after the check, and returns its name. */
  async exchange(kind, exchangeOptions = {}) {
    const name = this.name();
    await this.channel.assertExchange(name, kind, { durable: false, ...exchangeOptions });
    this.cleanup.push((channel) => channel.deleteExchange(name));
    return name;
  }

  /** Publishes bodies to a queue and waits until they are queued. */
  async send(queue, ...bodies) {
    for (const body of bodies) this.channel.sendToQueue(queue, Buffer.from(body));
    await this.channel.checkQueue(queue);
  }

  /** Gets and acks everything that is ready; returns the bodies. */
  async drain(queue, channel = this.channel) {
    const bodies = [];
    for (;;) {
      const message = await channel.get(queue, { noAck: true });
      if (message === false) return bodies;
      bodies.push(message.content.toString());
    }
  }

  /** The number of ready messages. */
  async ready(queue, channel = this.channel) {
    return (await channel.checkQueue(queue)).messageCount;
  }

  async close() {
    for (const connection of this.connections) await limited(connection.close(), 2000).catch(() => {});
    if (this.cleanup.length === 0) return;
    const connection = await amqp.connect(options({}));
    const channel = await connection.createChannel();
    for (const action of this.cleanup) await action(channel);
    await connection.close();
  }
}

function limited(promise, milliseconds) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`longer than ${milliseconds} ms`)), milliseconds);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Appends a line to the file that scores reads (scores/doc.go); without one, nothing. */
function report(...fields) {
  const path = process.env.INTEROP_RESULTS;
  if (path) fs.appendFileSync(path, `${fields.map((field) => field.replace(/\s+/g, ' ')).join('\t')}\n`);
}

/** Runs all registered checks; returns the exit status. */
async function run(words) {
  let passed = 0;
  let failed = 0;
  report('client', `amqplib ${require('./node_modules/amqplib/package.json').version}`);
  for (const { name, run: body } of checks) {
    if (words.length > 0 && !words.some((word) => name.includes(word))) continue;
    const context = new Context();
    const started = Date.now();
    try {
      await limited(context.open().then(() => body(context)), CHECK_MS_MAX);
      passed += 1;
      report('pass', name);
      if (process.env.VERBOSE) console.log(`ok   ${name} (${Date.now() - started} ms)`);
    } catch (error) {
      failed += 1;
      report('fail', name, error.message);
      console.log(`FAIL ${name}: ${error.message}`);
    }
    await limited(context.close(), CHECK_MS_MAX).catch((error) => console.log(`     clean-up after ${name}: ${error.message}`));
  }
  report('done');
  console.log(`${passed} passed, ${failed} failed`);
  return passed > 0 && failed === 0 ? 0 : 1;
}

module.exports = { check, equal, holds, waitUntil, event, closesChannel, closesConnection, options, run };
