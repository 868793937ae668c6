package main

import (
	"log/slog"
	"net/netip"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/config"
)

// engineConfig is what the engine gets of the configuration.
func engineConfig(c *config.Loaded) engine.Config {
	e := engine.Config{
		DataDir: c.DataDir, IO: c.IO, Loops: c.Loops, DurabilityOS: c.Durability == "os",
		Version:      version,
		Definitions:  c.Definitions,
		SetTimestamp: c.SetTimestamp, MessageBytesMax: uint64(c.MessageBytesMax),
		LoopbackUsers: c.LoopbackUsers,
		DiskFreeMin:   c.DiskFreeMin,

		Bind: c.AMQP.Bind, AMQPPort: c.AMQP.Port,
		HandshakeTimeout: c.AMQP.HandshakeTimeout,
		Secure:           secureConfig(c),
	}
	if c.DiskFreeMin == 0 {
		e.DiskFreeMin = -1 // the engine's 0 is the default
	}
	if c.DefaultUser != config.Default().DefaultUser || c.OwnPassword() {
		e.DefaultUser, e.DefaultPassword = c.DefaultUser, c.DefaultPassword
	}
	if c.HTTP.Port >= 0 {
		e.HTTP = netip.AddrPortFrom(c.HTTP.Bind, uint16(c.HTTP.Port))
	}
	return e
}

func levelOf(name string) (level slog.Level) {
	_ = level.UnmarshalText([]byte(name)) // checked already
	return level
}
