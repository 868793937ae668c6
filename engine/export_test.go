package engine

import "github.com/basaltmq/basaltmq/engine/amqp"

// AMQP gives tests the server behind the listener.
func (e *Engine) AMQP() *amqp.Server { return e.server.Load() }
