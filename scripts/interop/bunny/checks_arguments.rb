# frozen_string_literal: true

# RabbitMQ's extensions: arguments of queues, exchanges and consumers.

module Harness
  check('argument: x-message-ttl and the expiration of a message') do |ctx|
    short = ctx.queue(arguments: { 'x-message-ttl' => 1 })
    short.publish('m')
    plain = ctx.queue
    plain.publish('m', expiration: '1')
    wait_for('both to be empty') { short.message_count.zero? && plain.message_count.zero? }
  end

  check('argument: x-expires deletes an unused queue') do |ctx|
    name = ctx.channel.queue(ctx.name, arguments: { 'x-expires' => 200 }).name
    exchange = ctx.exchange(:fanout)
    ctx.channel.queue_bind(name, exchange.name)
    returned = Queue.new
    exchange.on_return { returned << true }
    wait_for('the queue to go') { exchange.publish('m', mandatory: true) && !returned.empty? }
  end

  check('argument: x-max-length and x-max-length-bytes drop from the head') do |ctx|
    count = ctx.queue(arguments: { 'x-max-length' => 2 })
    ctx.send(count, '1', '2', '3')
    equal('left', ctx.drain(count), %w[2 3])
    bytes = ctx.queue(arguments: { 'x-max-length-bytes' => 4 })
    ctx.send(bytes, '11', '22', '33')
    equal('left', ctx.drain(bytes), %w[22 33])
  end

  check('argument: x-overflow reject-publish answers nack') do |ctx|
    queue = ctx.queue(arguments: { 'x-max-length' => 1, 'x-overflow' => 'reject-publish' })
    ctx.channel.confirm_select
    2.times { |i| queue.publish(i.to_s) }
    equal('all confirmed', ctx.channel.wait_for_confirms, false)
    equal('nacked', ctx.channel.nacked_set.to_a, [2])
    equal('left', ctx.drain(queue), ['0'])
  end

  check('argument: x-dead-letter-exchange, with x-death') do |ctx|
    exchange = ctx.exchange(:direct)
    dead = ctx.queue.bind(exchange, routing_key: 'dead')
    queue = ctx.queue(arguments: { 'x-dead-letter-exchange' => exchange.name, 'x-dead-letter-routing-key' => 'dead' })
    ctx.send(queue, 'm')
    ctx.channel.reject(queue.pop(manual_ack: true)[0].delivery_tag, false)
    message = wait_for('the dead letter') { dead.pop.then { |got| got[0] && got } }
    death = message[1].headers['x-death'].first
    equal('death', death.values_at('reason', 'queue', 'count', 'exchange'), ['rejected', queue.name, 1, ''])
  end

  check('argument: x-max-priority, the highest first') do |ctx|
    queue = ctx.queue(arguments: { 'x-max-priority' => 10 })
    [1, 9, 5].each { |priority| ctx.send(queue, priority.to_s, priority: priority) }
    equal('order', ctx.drain(queue), %w[9 5 1])
  end

  check('argument: x-single-active-consumer') do |ctx|
    queue = ctx.queue(arguments: { 'x-single-active-consumer' => true })
    counts = [0, 0]
    2.times { |i| queue.subscribe { counts[i] += 1 } }
    ctx.send(queue, *%w[1 2 3 4])
    wait_for('four') { counts.sum == 4 }
    equal('shares', counts, [4, 0])
  end

  check('argument: x-priority of a consumer') do |ctx|
    queue = ctx.queue
    counts = [0, 0]
    queue.subscribe { counts[0] += 1 }
    queue.subscribe(arguments: { 'x-priority' => 5 }) { counts[1] += 1 }
    ctx.send(queue, *%w[1 2 3 4])
    wait_for('four') { counts.sum == 4 }
    equal('shares', counts, [0, 4])
  end

  check('argument: alternate-exchange') do |ctx|
    alternate = ctx.exchange(:fanout)
    queue = ctx.queue.bind(alternate)
    exchange = ctx.exchange(:direct, arguments: { 'alternate-exchange' => alternate.name })
    exchange.publish('m', routing_key: 'nowhere')
    equal('got', ctx.drain(queue), ['m'])
  end

  check('argument: an exchange of type x-consistent-hash') do |ctx|
    exchange = ctx.exchange('x-consistent-hash')
    queues = Array.new(2) { ctx.queue.bind(exchange, routing_key: '1') }
    200.times { |i| exchange.publish('m', routing_key: "key#{i}") }
    counts = wait_for('all messages') { queues.map(&:message_count).then { |all| all.sum == 200 && all } }
    holds('a share for each', counts.min > 20, counts)
  end

  check('argument: direct reply-to') do |ctx|
    replies = Queue.new
    ctx.channel.basic_consume('amq.rabbitmq.reply-to', '', true) { |_, _, body| replies << body }
    queue = ctx.queue
    ctx.channel.default_exchange.publish('q', routing_key: queue.name, reply_to: 'amq.rabbitmq.reply-to')
    _, properties, = wait_for('the request') { queue.pop.then { |got| got[0] && got } }
    ctx.connect.create_channel.default_exchange.publish('a', routing_key: properties.reply_to)
    equal('reply', take('the reply', replies), 'a')
  end
end
