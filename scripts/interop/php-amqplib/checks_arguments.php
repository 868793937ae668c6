<?php

declare(strict_types=1);

// RabbitMQ's extensions: arguments of queues, exchanges and consumers.

use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

check('argument: x-message-ttl and the expiration of a message', function (Context $ctx) {
    [$short, $plain] = [$ctx->queue(['x-message-ttl' => 1]), $ctx->queue()];
    $ctx->publish('', $short);
    $ctx->publish('', $plain, 'm', ['expiration' => '1']);
    until('both to be empty', fn () => $ctx->ready($short) + $ctx->ready($plain) === 0);
});

check('argument: x-max-length and x-max-length-bytes drop from the head', function (Context $ctx) {
    $count = $ctx->queue(['x-max-length' => 2]);
    $ctx->send($count, '1', '2', '3');
    equal('left', $ctx->drain($count), ['2', '3']);
    $bytes = $ctx->queue(['x-max-length-bytes' => 4]);
    $ctx->send($bytes, '11', '22', '33');
    equal('left', $ctx->drain($bytes), ['22', '33']);
});

check('argument: x-overflow reject-publish answers nack', function (Context $ctx) {
    $queue = $ctx->queue(['x-max-length' => 1, 'x-overflow' => 'reject-publish']);
    $nacked = [];
    $ctx->channel()->set_nack_handler(function (AMQPMessage $message) use (&$nacked) {
        $nacked[] = $message->getBody();
    });
    $ctx->channel()->confirm_select();
    $ctx->publish('', $queue, '1');
    $ctx->channel()->wait_for_pending_acks(WAIT_SECONDS_MAX);
    $ctx->publish('', $queue, '2');
    $ctx->channel()->wait_for_pending_acks(WAIT_SECONDS_MAX);
    equal('nacked', $nacked, ['2']);
});

check('argument: an unknown x-overflow is 406', function (Context $ctx) {
    raises(406, "invalid arg 'x-overflow'", fn () => $ctx->connection()->channel()->queue_declare($ctx->name(), arguments: new AMQPTable(['x-overflow' => 'spill'])));
});

check('argument: x-dead-letter-exchange, with x-death', function (Context $ctx) {
    $dead = $ctx->queue();
    $queue = $ctx->queue(['x-dead-letter-exchange' => '', 'x-dead-letter-routing-key' => $dead]);
    $ctx->send($queue, 'm');
    $ctx->channel()->basic_get($queue)->reject(false);
    $headers = $ctx->await($dead)->get('application_headers')->getNativeData();
    $death = $headers['x-death'][0];
    equal('death', [$death['reason'], $death['queue'], $death['count']], ['rejected', $queue, 1]);
});

check('argument: x-max-priority, the highest first', function (Context $ctx) {
    $queue = $ctx->queue(['x-max-priority' => 10]);
    foreach ([1, 9, 5] as $priority) {
        $ctx->publish('', $queue, "$priority", ['priority' => $priority]);
    }
    $ctx->ready($queue);
    equal('order', $ctx->drain($queue), ['9', '5', '1']);
});

check('argument: x-priority of a consumer', function (Context $ctx) {
    $queue = $ctx->queue();
    $counts = [0, 0];
    foreach ([0, 1] as $i) {
        $ctx->channel()->basic_consume($queue, no_ack: true, callback: function () use (&$counts, $i) {
            $counts[$i]++;
        }, arguments: new AMQPTable(['x-priority' => $i]));
    }
    $ctx->send($queue, '1', '2', '3', '4');
    $ctx->pump('four messages', function () use (&$counts) {
        return array_sum($counts) === 4;
    });
    equal('shares', $counts, [0, 4]);
});

check('argument: alternate-exchange', function (Context $ctx) {
    $alternate = $ctx->exchange('fanout');
    $queue = $ctx->bound($alternate);
    $exchange = $ctx->exchange('direct', ['alternate-exchange' => $alternate]);
    $ctx->publish($exchange, 'nowhere');
    equal('got', $ctx->drain($queue), ['m']);
});

check('argument: direct reply-to', function (Context $ctx) {
    $got = null;
    $ctx->channel()->basic_consume('amq.rabbitmq.reply-to', no_ack: true, callback: function (AMQPMessage $message) use (&$got) {
        $got = $message->getBody();
    });
    $queue = $ctx->queue();
    $ctx->publish('', $queue, 'q', ['reply_to' => 'amq.rabbitmq.reply-to']);
    $address = $ctx->await($queue)->get('reply_to');
    $ctx->connect()->channel()->basic_publish(new AMQPMessage('a'), '', $address);
    $ctx->pump('the reply', function () use (&$got) {
        return $got !== null;
    });
    equal('reply', $got, 'a');
});
