package amqp

import "time"

// Tuning is what may change while the server runs. Zero values mean the defaults.
// Connections take over what they negotiate when they begin, channels their
// prefetch when they are opened; the rest is in force at once.
type Tuning struct {
	Heartbeat        time.Duration // proposed; negative: none
	HandshakeTimeout time.Duration
	FrameMax         uint32 // bytes, proposed and at most
	ChannelMax       uint16 // proposed and at most
	MessageBytesMax  uint64
	Prefetch         uint16 // of channels whose client sets none; 0: unlimited
	// AckTimeout is how long a delivery may stay unacknowledged where neither
	// consumer, queue nor policy says; 0: for ever.
	AckTimeout time.Duration
}

func (t Tuning) withDefaults() *Tuning {
	if t.Heartbeat == 0 {
		t.Heartbeat = heartbeatDefault
	}
	if t.HandshakeTimeout == 0 {
		t.HandshakeTimeout = handshakeTimeout
	}
	if t.FrameMax == 0 {
		t.FrameMax = frameMaxDefault
	}
	if t.ChannelMax == 0 {
		t.ChannelMax = channelMaxDefault
	}
	if t.MessageBytesMax == 0 {
		t.MessageBytesMax = MessageBytesMaxDefault
	}
	return &t
}

// heartbeatSeconds is what connection.tune says.
func (t *Tuning) heartbeatSeconds() uint16 { return uint16(max(t.Heartbeat, 0) / time.Second) }

// ackTimeout is the deadline in ms of deliveries from a queue that sets none.
func (t *Tuning) ackTimeout(stream bool) int64 {
	if stream {
		return 0 // nothing waits behind a stream's unacknowledged messages
	}
	return t.AckTimeout.Milliseconds()
}

// Tune changes the tuning. Any goroutine.
func (s *Server) Tune(t Tuning) { s.tuning.Store(t.withDefaults()) }
