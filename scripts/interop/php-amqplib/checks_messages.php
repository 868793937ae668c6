<?php

declare(strict_types=1);

// Publishing, confirms, returns, transactions, getting, consuming, settling.

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Exception\AMQPBasicCancelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

check('publish: all properties come back', function (Context $ctx) {
    $sent = ['content_type' => 'text/plain', 'content_encoding' => 'utf-8', 'delivery_mode' => 2, 'priority' => 3, 'correlation_id' => 'c',
        'reply_to' => 'r', 'expiration' => '60000', 'message_id' => 'm', 'timestamp' => 1700000000, 'type' => 't', 'user_id' => 'guest',
        'app_id' => 'a', 'cluster_id' => 'x'];
    $queue = $ctx->queue();
    $ctx->publish('', $queue, 'body', $sent);
    $got = $ctx->await($queue);
    equal('properties', $got->get_properties(), $sent);
    equal('body', $got->getBody(), 'body');
});

$table = new AMQPTable();
$table->set('shortshort', -5, AMQPTable::T_INT_SHORTSHORT);
$table->set('short', -30000, AMQPTable::T_INT_SHORT);
$table->set('long', -2000000000, AMQPTable::T_INT_LONG);
$table->set('longlong', PHP_INT_MIN, AMQPTable::T_INT_LONGLONG);
$values = ['string' => 'text', 'int' => 42, 'large int' => 1 << 40, 'true' => true, 'false' => false, 'null' => null,
    'list' => [1, 'a', [true, null]], 'table' => ['a' => ['b' => ['c' => 1]]]] + $table->getNativeData();
foreach ($values as $kind => $value) {
    check("headers: $kind", function (Context $ctx) use ($kind, $value, $table) {
        $headers = isset($table->getNativeData()[$kind]) ? $table : new AMQPTable([$kind => $value]);
        $queue = $ctx->queue();
        $ctx->publish('', $queue, 'm', ['application_headers' => $headers]);
        equal('value', $ctx->await($queue)->get('application_headers')->getNativeData()[$kind], $value);
    });
}

foreach ([0, 1, 131064, 131065, 1 << 20, 8 << 20] as $size) {
    check("body: $size bytes", function (Context $ctx) use ($size) {
        $queue = $ctx->queue();
        $body = $size === 0 ? '' : random_bytes($size);
        $ctx->publish('', $queue, $body);
        holds('the same bytes', $ctx->await($queue)->getBody() === $body);
    });
}

check('publish: a batch', function (Context $ctx) {
    $queue = $ctx->queue();
    foreach (range(1, 100) as $i) {
        $ctx->channel()->batch_basic_publish(new AMQPMessage("$i"), '', $queue);
    }
    $ctx->channel()->publish_batch();
    equal('bodies', $ctx->drain($queue), array_map('strval', range(1, 100)));
});

check('confirm: handlers hear acks, wait_for_pending_acks ends', function (Context $ctx) {
    $acked = $nacked = 0;
    $channel = $ctx->channel();
    $channel->set_ack_handler(function () use (&$acked) {
        $acked++;
    });
    $channel->set_nack_handler(function () use (&$nacked) {
        $nacked++;
    });
    $channel->confirm_select();
    $queue = $ctx->queue(exclusive: false, durable: true);
    for ($i = 0; $i < 500; $i++) {
        $ctx->publish('', $queue, 'm', ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT]);
    }
    $channel->wait_for_pending_acks(WAIT_SECONDS_MAX);
    equal('acked, nacked, queued', [$acked, $nacked, $ctx->ready($queue)], [500, 0, 500]);
});

check('confirm: not on a tx channel, nor tx on a confirm channel', function (Context $ctx) {
    $channel = $ctx->connection()->channel();
    $channel->tx_select();
    raises(406, 'cannot switch from tx to confirm mode', fn () => $channel->confirm_select());
    $channel = $ctx->connection()->channel();
    $channel->confirm_select();
    raises(406, 'cannot switch from confirm to tx mode', fn () => $channel->tx_select());
});

check('return: the listener gets code, text, exchange, key, message', function (Context $ctx) {
    $returned = [];
    $exchange = $ctx->exchange('direct');
    $ctx->channel()->set_return_listener(function (int $code, string $text, string $exchange, string $key, AMQPMessage $message) use (&$returned) {
        $returned = [$code, $text, $exchange, $key, $message->getBody(), $message->get('message_id')];
    });
    $ctx->channel()->confirm_select();
    $ctx->publish($exchange, 'nowhere', 'back', ['message_id' => 'm'], true);
    $ctx->channel()->wait_for_pending_acks_returns(WAIT_SECONDS_MAX);
    equal('returned', $returned, [312, 'NO_ROUTE', $exchange, 'nowhere', 'back', 'm']);
});

check('publish: to a missing exchange is 404', function (Context $ctx) {
    $channel = $ctx->connection()->channel();
    $channel->basic_publish(new AMQPMessage('m'), 'interop-missing', 'k');
    raises(404, "no exchange 'interop-missing' in vhost '/'", fn () => $channel->queue_declare('', exclusive: true));
});

check('publish: immediate without a consumer comes back, or is 540', function (Context $ctx) {
    $codes = [];
    $channel = $ctx->connect()->channel();
    [$queue] = $channel->queue_declare('', exclusive: true);
    $channel->set_return_listener(function (int $code) use (&$codes) {
        $codes[] = $code;
    });
    $channel->basic_publish(new AMQPMessage('m'), '', $queue, false, true);
    try {
        $ctx->pump('an answer', function () use (&$codes) {
            return $codes !== [];
        }, $channel);
    } catch (PhpAmqpLib\Exception\AMQPConnectionClosedException $e) {
        $codes[] = $e->getCode();
    }
    holds('313 as the specification says, or 540 as RabbitMQ does', $codes === [313] || $codes === [540], $codes);
});

check('tx: commit and rollback', function (Context $ctx) {
    $queue = $ctx->queue();
    $channel = $ctx->connection()->channel();
    $channel->tx_select();
    $channel->basic_publish(new AMQPMessage('1'), '', $queue);
    equal('before', $ctx->ready($queue), 0);
    $channel->tx_commit();
    $channel->basic_publish(new AMQPMessage('2'), '', $queue);
    $channel->tx_rollback();
    equal('got', $ctx->drain($queue), ['1']);
});

check('get: empty, envelope, redelivered after nack', function (Context $ctx) {
    $queue = $ctx->queue();
    equal('empty', $ctx->channel()->basic_get($queue), null);
    $ctx->send($queue, '1', '2');
    $message = $ctx->channel()->basic_get($queue);
    equal('first', [$message->getExchange(), $message->getRoutingKey(), $message->isRedelivered(), $message->getMessageCount(), $message->getBody()], ['', $queue, false, 1, '1']);
    $message->nack(true);
    $message = $ctx->channel()->basic_get($queue);
    equal('again', [$message->isRedelivered(), $message->getBody()], [true, '1']);
    $message->ack();
    equal('rest', $ctx->drain($queue), ['2']);
});

check('settle: ack and nack multiple, reject', function (Context $ctx) {
    $queue = $ctx->queue();
    $ctx->send($queue, '1', '2', '3', '4', '5', '6');
    $tags = array_map(fn () => $ctx->channel()->basic_get($queue)->getDeliveryTag(), range(1, 6));
    $ctx->channel()->basic_ack($tags[1], true);
    $ctx->channel()->basic_reject($tags[2], true);
    $ctx->channel()->basic_reject($tags[3], false);
    $ctx->channel()->basic_nack($tags[5], true, true);
    equal('left', $ctx->drain($queue), ['3', '5', '6']);
});

check('settle: an unknown tag is 406', function (Context $ctx) {
    $channel = $ctx->connection()->channel();
    $channel->basic_ack(42);
    raises(406, 'unknown delivery tag 42', fn () => $channel->queue_declare('', exclusive: true));
});

check('recover: unacked come again; requeue=false is 540', function (Context $ctx) {
    $queue = $ctx->queue();
    $ctx->send($queue, '1', '2');
    $ctx->channel()->basic_get($queue);
    $ctx->channel()->basic_get($queue);
    $ctx->channel()->basic_recover(true);
    equal('again', $ctx->drain($queue), ['1', '2']);
    raises(540, 'requeue=false', fn () => $ctx->connect()->channel()->basic_recover(false));
});

check('consume: in order, tags, acked', function (Context $ctx) {
    $queue = $ctx->queue();
    $got = [];
    $tag = $ctx->channel()->basic_consume($queue, 'mine', callback: function (AMQPMessage $message) use (&$got) {
        $got[] = [$message->getConsumerTag(), $message->getDeliveryTag(), $message->getBody()];
        $message->ack();
    });
    equal('tag', $tag, 'mine');
    $ctx->send($queue, ...array_map('strval', range(1, 300)));
    $ctx->pump('300 messages', function () use (&$got) {
        return count($got) === 300;
    });
    equal('got', $got, array_map(fn (int $i) => ['mine', $i, "$i"], range(1, 300)));
    equal('left', $ctx->ready($queue), 0);
});

check('consume: the loop of consume() and stopConsume()', function (Context $ctx) {
    $queue = $ctx->queue();
    $got = [];
    $ctx->channel()->basic_consume($queue, no_ack: true, callback: function (AMQPMessage $message) use (&$got, $ctx) {
        $got[] = $message->getBody();
        if ($message->getBody() === 'last') {
            $ctx->channel()->stopConsume();
        }
    });
    $ctx->send($queue, '1', 'last');
    $ctx->channel()->consume(1);
    equal('got', $got, ['1', 'last']);
});

check('consume: exclusive use is 403', function (Context $ctx) {
    $queue = $ctx->queue();
    $ctx->channel()->basic_consume($queue, exclusive: true, callback: fn () => null);
    raises(403, "queue '$queue' in vhost '/' in exclusive use", fn () => $ctx->connection()->channel()->basic_consume($queue));
});

check('consume: a cancel by the client, then one by the server', function (Context $ctx) {
    $queue = $ctx->queue(exclusive: false);
    $tag = $ctx->channel()->basic_consume($queue);
    $ctx->channel()->basic_cancel($tag);
    equal('consumers', $ctx->channel()->queue_declare($queue, passive: true)[2], 0);
    $ctx->channel()->basic_consume($queue, 'mine');
    $ctx->connect()->channel()->queue_delete($queue);
    try {
        $ctx->channel()->wait(null, false, WAIT_SECONDS_MAX);
    } catch (AMQPBasicCancelException $e) {
        equal('tag', $e->consumerTag, 'mine');
        return;
    }
    throw new Failed('no cancel arrived');
});

check('consume: two consumers share in turn', function (Context $ctx) {
    $queue = $ctx->queue();
    $counts = [0, 0];
    foreach ([0, 1] as $i) {
        $ctx->channel()->basic_consume($queue, no_ack: true, callback: function () use (&$counts, $i) {
            $counts[$i]++;
        });
    }
    $ctx->send($queue, '1', '2', '3', '4', '5', '6');
    $ctx->pump('six messages', function () use (&$counts) {
        return array_sum($counts) === 6;
    });
    equal('shares', $counts, [3, 3]);
});

check('qos: prefetch per consumer, and for the channel', function (Context $ctx) {
    foreach ([false, true] as $global) {
        $channel = $ctx->connection()->channel();
        $queue = $ctx->queue();
        $ctx->send($queue, '1', '2', '3', '4', '5');
        $got = [];
        $channel->basic_qos(0, 2, $global);
        $channel->basic_consume($queue, callback: function (AMQPMessage $message) use (&$got) {
            $got[] = $message;
        });
        $ctx->pump('two messages', function () use (&$got) {
            return count($got) === 2;
        }, $channel);
        equal('ready', $ctx->ready($queue), 3);
        $got[0]->ack();
        $ctx->pump('a third', function () use (&$got) {
            return count($got) === 3;
        }, $channel);
        equal('ready', $ctx->ready($queue), 2);
    }
});

check('close: unacked go back in order', function (Context $ctx) {
    $queue = $ctx->queue();
    $ctx->send($queue, '1', '2', '3');
    $channel = $ctx->connection()->channel();
    $channel->basic_get($queue);
    $channel->basic_get($queue);
    $channel->close();
    until('all back', fn () => $ctx->ready($queue) === 3);
    equal('order', $ctx->drain($queue), ['1', '2', '3']);
});
