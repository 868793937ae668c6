package engine

import (
	"fmt"
	"os"
	"time"

	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/definitions"
)

// serveControl starts the administration's socket in the data directory.
func (e *Engine) serveControl() (err error) {
	began := time.Now()
	h := admin.NewHandler(admin.Options{
		Broker: e.broker, AMQP: e.server.Load(), Version: e.config.Version,
		Status: func() admin.Status {
			sockets, files := e.Backends()
			durability := "fsync"
			if e.config.DurabilityOS {
				durability = "os"
			}
			return admin.Status{
				PID: os.Getpid(), UptimeSeconds: int64(time.Since(began).Seconds()), DataDir: e.config.DataDir,
				Listeners: map[string]string{"amqp": e.Addr().String()}, Loops: e.Loops(),
				Sockets: sockets, Files: files, Durability: durability,
			}
		},
	})
	e.handler.Store(h)
	e.control, err = admin.Serve(e.config.DataDir, h, e.logger)
	return err
}

// readDefinitions reads the file that this start is to import; nil if there is
// none. It comes before anything is written.
func (e *Engine) readDefinitions() ([]byte, error) {
	if e.config.Definitions == "" {
		return nil, nil
	}
	data, err := os.ReadFile(e.config.Definitions)
	if err != nil {
		return nil, fmt.Errorf("the definitions cannot be read: %w", err)
	}
	return data, nil
}

// defaultUserFor is the user that a first start makes. Who brings users along
// does not want another that everybody knows the password of.
func (e *Engine) defaultUserFor(file []byte) *broker.DefaultUser {
	if !e.askedForUser && file != nil && definitions.HasUsers(file) {
		return nil
	}
	return &broker.DefaultUser{Name: e.config.DefaultUser, Password: e.config.DefaultPassword}
}

// importDefinitions makes what the file asks for, before anybody can connect.
func (e *Engine) importDefinitions(file []byte) error {
	if file == nil {
		return nil
	}
	report, err := definitions.Import(e.broker, file, "")
	if err != nil {
		return fmt.Errorf("%s: %w", e.config.Definitions, err)
	}
	e.logger.Info("definitions are imported", "file", e.config.Definitions, "changes", report.Changes)
	for _, name := range report.Ignored {
		e.logger.Warn("the definitions have a section that means nothing here", "file", e.config.Definitions, "section", name)
	}
	return nil
}
