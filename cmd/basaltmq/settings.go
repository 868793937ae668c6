package main

import (
	"log/slog"
	"net/netip"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/config"
)

// engineConfig is what the engine gets of the configuration.
func engineConfig(c *config.Config) engine.Config {
	e := engine.Config{
		DataDir: c.DataDir, IO: c.IO, Loops: c.Loops, DurabilityOS: c.Durability == "os",
		FlushInterval: c.FlushInterval, SyncInterval: c.SyncInterval,
		Version:       version,
		Definitions:   c.Definitions,
		SetTimestamp:  c.SetTimestamp,
		LoopbackUsers: c.LoopbackUsers,
		DiskFreeMin:   c.DiskFreeMin,
		DrainTimeout:  c.DrainTimeout,

		Bind: c.AMQP.Bind, AMQPPort: c.AMQP.Port,
		Secure: secureConfig(c), Auth: authConfig(c),
		Tuning: amqp.Tuning{
			Heartbeat: c.AMQP.Heartbeat, HandshakeTimeout: c.AMQP.HandshakeTimeout,
			FrameMax: uint32(c.AMQP.FrameMax), ChannelMax: uint16(c.AMQP.ChannelMax),
			MessageBytesMax: uint64(c.MessageBytesMax),
			Prefetch:        uint16(c.AMQP.DefaultPrefetch), AckTimeout: c.AMQP.ConsumerTimeout,
		},
	}
	// Where the engine's 0 is the default, none at all is -1.
	if c.DiskFreeMin == 0 {
		e.DiskFreeMin = -1
	}
	if c.DrainTimeout == 0 {
		e.DrainTimeout = -1
	}
	if c.AMQP.Heartbeat == 0 {
		e.Tuning.Heartbeat = -1
	}
	if c.DefaultUser != config.Default().DefaultUser || c.OwnPassword() {
		e.DefaultUser, e.DefaultPassword, e.DefaultPasswordHash = c.DefaultUser, c.DefaultPassword, c.DefaultPasswordHash
	}
	if c.HTTP.Port >= 0 {
		e.HTTP = netip.AddrPortFrom(c.HTTP.Bind, uint16(c.HTTP.Port))
	}
	if c.Metrics.Port >= 0 {
		e.Metrics = netip.AddrPortFrom(c.Metrics.Bind, uint16(c.Metrics.Port))
	}
	if c.Debug.Port > 0 {
		e.Debug = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(c.Debug.Port))
	}
	return e
}

func levelOf(name string) (level slog.Level) {
	_ = level.UnmarshalText([]byte(name)) // checked already
	return level
}
