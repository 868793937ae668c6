package amqp

import (
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Alarm. While the broker cannot take more messages (the disk is nearly full),
// connections that publish are told so, if they announced the capability
// connection.blocked, and are not read from. Others go on: consuming and
// acknowledging is what frees space. A connection counts as a publisher from
// its first basic.publish on; a publish made during the alarm is still taken.

// SetAlarm blocks publishers for a reason, or with "" lets them go on. Any
// goroutine.
func (s *Server) SetAlarm(reason string) {
	if s.alarm.Store(&reason); reason == "" {
		s.alarm.Store(nil)
	}
	for _, sh := range s.shards {
		sh.loop.Post(loop.RunnerFunc(func() {
			sh.alarm = reason
			for _, c := range sh.conns {
				c.heedAlarm()
			}
		}))
	}
}

// heedAlarm blocks or unblocks the connection as the alarm says.
func (c *conn) heedAlarm() {
	reason := c.shard.alarm
	blocked := c.stall&stallAlarm != 0
	switch {
	case reason != "" && !blocked && c.state == stateOpen && c.publishes():
		c.stall |= stallAlarm
		if c.blockNotify {
			c.emitMethod(0, &amqp.ConnectionBlocked{Reason: []byte(reason)})
		}
		c.sock.PauseRead()
		c.flush()
	case reason == "" && blocked:
		if c.blockNotify {
			c.emitMethod(0, &amqp.ConnectionUnblocked{})
		}
		c.resume(stallAlarm)
		c.flush()
	}
}
