<?php

declare(strict_types=1);

// Connections, channels, exchanges, queues, bindings.

use PhpAmqpLib\Connection\AMQPConnectionConfig;
use PhpAmqpLib\Connection\AMQPConnectionFactory;
use PhpAmqpLib\Connection\AMQPLazyConnection;
use PhpAmqpLib\Connection\AMQPSocketConnection;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

check('connection: server properties', function (Context $ctx) {
    $properties = $ctx->connection()->getServerProperties();
    foreach (['product', 'version', 'platform', 'capabilities'] as $key) {
        holds($key, isset($properties[$key][1]), $properties);
    }
});

check('connection: PLAIN and AMQPLAIN', function (Context $ctx) {
    foreach (['PLAIN', 'AMQPLAIN'] as $method) {
        $ctx->connect(login_method: $method)->channel()->queue_declare('', exclusive: true);
    }
});

check('connection: through sockets, lazily, and by the factory', function (Context $ctx) {
    $ctx->connect(AMQPSocketConnection::class)->channel()->queue_declare('', exclusive: true);
    $lazy = $ctx->connect(AMQPLazyConnection::class);
    equal('connected before use', $lazy->isConnected(), false);
    $lazy->channel()->queue_declare('', exclusive: true);
    $parameters = $ctx->parameters();
    $config = new AMQPConnectionConfig();
    $config->setHost($parameters['host']);
    $config->setPort($parameters['port']);
    $config->setUser($parameters['user']);
    $config->setPassword($parameters['password']);
    $connection = AMQPConnectionFactory::create($config);
    $connection->channel()->queue_declare('', exclusive: true);
    $connection->close();
});

check('connection: create_connection tries the hosts in turn', function (Context $ctx) {
    $good = $ctx->parameters();
    $connection = AMQPStreamConnection::create_connection([['port' => 1] + $good, $good], []);
    equal('connected', $connection->isConnected(), true);
    $connection->close();
});

check('connection: a wrong password is 403', function (Context $ctx) {
    raises(403, 'ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN', fn () => $ctx->connect(login_method: 'PLAIN', password: 'not-the-password'));
});

check('connection: an unknown vhost is 530', function (Context $ctx) {
    raises(530, 'vhost no-such-vhost not found', fn () => $ctx->connect(vhost: 'no-such-vhost'));
});

check('connection: idle for two heartbeats with checkHeartBeat', function (Context $ctx) {
    $connection = $ctx->connect(heartbeat: 1, read_write_timeout: 3.0);
    for ($i = 0; $i < 25; $i++) {
        usleep(100000);
        $connection->checkHeartBeat();
    }
    $connection->channel()->queue_declare('', exclusive: true);
});

check('connection: reconnect', function (Context $ctx) {
    $connection = $ctx->connect();
    $connection->channel()->queue_declare('', exclusive: true);
    $connection->reconnect();
    $connection->channel()->queue_declare('', exclusive: true);
});

check('connection: not blocked while there is room', function (Context $ctx) {
    $heard = [];
    $ctx->connection()->set_connection_block_handler(function ($reason) use (&$heard) {
        $heard[] = $reason;
    });
    $queue = $ctx->queue();
    $ctx->send($queue, ...array_fill(0, 100, str_repeat('x', 1000)));
    equal('blocked', [$ctx->connection()->isBlocked(), $heard], [false, []]);
});

check('channel: fifty at once, closed, used after an error of another', function (Context $ctx) {
    $numbers = [];
    for ($i = 0; $i < 50; $i++) {
        $channel = $ctx->connection()->channel();
        $numbers[] = $channel->getChannelId();
        $channels[] = $channel;
    }
    equal('numbers', count(array_unique($numbers)), 50);
    raises(404, "no queue 'interop-missing' in vhost '/'", fn () => $channels[0]->queue_declare('interop-missing', passive: true));
    equal('closed', $channels[0]->is_open(), false);
    $channels[1]->queue_declare('', exclusive: true);
    foreach (array_slice($channels, 1) as $channel) {
        $channel->close();
    }
});

check('channel: flow on, access_request', function (Context $ctx) {
    $ctx->channel()->flow(true);
    $ctx->channel()->access_request('/data', active: true, write: true, read: true);
    $ctx->queue();
});

check('exchange: declare of the four types, passive, delete', function (Context $ctx) {
    foreach (['direct', 'fanout', 'topic', 'headers'] as $type) {
        $name = $ctx->name();
        $ctx->channel()->exchange_declare($name, $type, durable: true, auto_delete: false);
        $ctx->channel()->exchange_declare($name, $type, passive: true);
        $ctx->channel()->exchange_delete($name);
        raises(404, "no exchange '$name' in vhost '/'", fn () => $ctx->connection()->channel()->exchange_declare($name, $type, passive: true));
    }
});

check('exchange: a redeclare that differs is 406, a reserved name 403', function (Context $ctx) {
    $name = $ctx->exchange('fanout');
    raises(406, "inequivalent arg 'type' for exchange '$name' in vhost '/': received 'direct' but current is 'fanout'", fn () => $ctx->connection()->channel()->exchange_declare($name, 'direct', auto_delete: false));
    raises(403, "contains reserved prefix 'amq.*'", fn () => $ctx->connection()->channel()->exchange_declare('amq.mine', 'direct'));
});

check('exchange: an unknown type is 503 for the connection', function (Context $ctx) {
    $connection = $ctx->connect();
    raises(503, "unknown exchange type 'x-nonsense'", fn () => $connection->channel()->exchange_declare($ctx->name(), 'x-nonsense'));
    equal('connected', $connection->isConnected(), false);
});

check('exchange: if_unused delete of a bound one is 406', function (Context $ctx) {
    $name = $ctx->exchange('direct');
    $ctx->bound($name, 'k');
    raises(406, "exchange '$name' in vhost '/' in use", fn () => $ctx->connection()->channel()->exchange_delete($name, true));
});

check('exchange: an internal one takes no publishes', function (Context $ctx) {
    $name = $ctx->exchange('fanout', internal: true);
    $channel = $ctx->connection()->channel();
    $channel->basic_publish(new AMQPMessage('m'), $name);
    raises(403, "cannot publish to internal exchange '$name' in vhost '/'", fn () => $channel->queue_declare('', exclusive: true));
});

check('exchange: bind and unbind to another exchange', function (Context $ctx) {
    [$source, $destination] = [$ctx->exchange('topic'), $ctx->exchange('fanout')];
    $queue = $ctx->bound($destination);
    $ctx->channel()->exchange_bind($destination, $source, 'a.#');
    $ctx->publish($source, 'a.b', 'yes');
    equal('bound', $ctx->drain($queue), ['yes']);
    $ctx->channel()->exchange_unbind($destination, $source, 'a.#');
    $ctx->publish($source, 'a.b', 'no');
    equal('unbound', $ctx->drain($queue), []);
});

check('routing: direct, topic, headers', function (Context $ctx) {
    [$direct, $topic, $headers] = [$ctx->exchange('direct'), $ctx->exchange('topic'), $ctx->exchange('headers')];
    $queue = $ctx->bound($direct, 'k');
    $ctx->channel()->queue_bind($queue, $topic, '*.b.#');
    $ctx->channel()->queue_bind($queue, $headers, '', arguments: new PhpAmqpLib\Wire\AMQPTable(['x-match' => 'all', 'h' => 1, 's' => 'x']));
    foreach (['k', 'j'] as $key) {
        $ctx->publish($direct, $key, "direct $key");
    }
    foreach (['a.b', 'a.b.c', 'b', 'a.a.b'] as $key) {
        $ctx->publish($topic, $key, "topic $key");
    }
    foreach ([['h' => 1], ['h' => 1, 's' => 'x', 'more' => true]] as $i => $table) {
        $ctx->publish($headers, '', "headers $i", ['application_headers' => new PhpAmqpLib\Wire\AMQPTable($table)]);
    }
    equal('got', $ctx->drain($queue), ['direct k', 'topic a.b', 'topic a.b.c', 'headers 1']);
});

check('queue: server-named, exclusive, locked for others', function (Context $ctx) {
    [$name, $messages, $consumers] = $ctx->channel()->queue_declare('', exclusive: true);
    holds('amq.gen-', str_starts_with($name, 'amq.gen-'), $name);
    equal('counts', [$messages, $consumers], [0, 0]);
    raises(405, "cannot obtain exclusive access to locked queue '$name' in vhost '/'", fn () => $ctx->connect()->channel()->queue_declare($name, passive: true));
});

check('queue: a redeclare that differs is 406', function (Context $ctx) {
    $name = $ctx->queue(exclusive: false, durable: true);
    raises(406, "inequivalent arg 'durable' for queue '$name' in vhost '/': received 'false' but current is 'true'", fn () => $ctx->connection()->channel()->queue_declare($name, auto_delete: false));
});

check('queue: purge and delete count, if_empty and if_unused', function (Context $ctx) {
    $name = $ctx->queue();
    $ctx->send($name, '1', '2');
    raises(406, "queue '$name' in vhost '/' not empty", fn () => $ctx->connection()->channel()->queue_delete($name, if_empty: true));
    equal('purged', $ctx->channel()->queue_purge($name), 2);
    $ctx->channel()->basic_consume($name);
    raises(406, "queue '$name' in vhost '/' in use", fn () => $ctx->connection()->channel()->queue_delete($name, if_unused: true));
    $ctx->send($name, '3');
    $ctx->channel()->queue_delete($name);
    raises(404, "no queue '$name' in vhost '/'", fn () => $ctx->connection()->channel()->queue_declare($name, passive: true));
});

check('queue: unbind, and a bind to what is missing', function (Context $ctx) {
    $exchange = $ctx->exchange('direct');
    $queue = $ctx->bound($exchange, 'a');
    $ctx->channel()->queue_bind($queue, $exchange, 'b');
    $ctx->channel()->queue_unbind($queue, $exchange, 'a');
    $ctx->publish($exchange, 'a', 'a');
    $ctx->publish($exchange, 'b', 'b');
    equal('got', $ctx->drain($queue), ['b']);
    raises(404, "no exchange 'interop-missing' in vhost '/'", fn () => $ctx->connection()->channel()->queue_bind($queue, 'interop-missing'));
});

check('queue: the nowait forms', function (Context $ctx) {
    [$queue, $exchange] = [$ctx->name(), $ctx->name()];
    $channel = $ctx->channel();
    $channel->exchange_declare($exchange, 'direct', auto_delete: true, nowait: true);
    $channel->queue_declare($queue, exclusive: true, nowait: true);
    $channel->queue_bind($queue, $exchange, 'k', nowait: true);
    $ctx->publish($exchange, 'k');
    until('the message', fn () => $ctx->ready($queue) === 1);
    $channel->queue_purge($queue, nowait: true);
    equal('purged', $ctx->ready($queue), 0);
    $channel->queue_delete($queue, nowait: true);
    raises(404, "no queue '$queue'", fn () => $channel->queue_declare($queue, passive: true));
});
