// Command access checks permissions, virtual hosts and limits through the Go
// client github.com/rabbitmq/amqp091-go: what its users see of them. It starts a
// broker of its own on a free port, because users are made through the broker's
// Go interface; $AMQP_URL is not looked at.
//
// The last line is "N passed, N failed".
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
)

// patience bounds each wait.
const patience = 20 * time.Second

func main() {
	passed, failed, err := run()
	if err == nil {
		err = report("done")
	}
	if err != nil {
		fmt.Println("FAIL access:", err)
		failed++
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}

// suite is the broker, and what the checks found.
type suite struct {
	e              *engine.Engine
	passed, failed int
}

func run() (passed, failed int, err error) {
	dir, err := os.MkdirTemp("", "basaltmq-interop-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	e, err := engine.Start(engine.Config{DataDir: dir, DefaultUser: "root", DefaultPassword: "root"})
	if err != nil {
		return 0, 0, err
	}
	s := &suite{e: e}
	if err := s.users(); err != nil {
		return 0, 0, errors.Join(err, e.Stop())
	}
	lines := []string{"client\tamqp091-go " + clientVersion()}
	for _, c := range checks {
		if err := c.do(s); err != nil {
			fmt.Printf("FAIL %s: %v\n", c.name, err)
			lines = append(lines, "fail\t"+c.name+"\t"+strings.Join(strings.Fields(err.Error()), " "))
			s.failed++
			continue
		}
		fmt.Println("ok   " + c.name)
		lines = append(lines, "pass\t"+c.name)
		s.passed++
	}
	return s.passed, s.failed, errors.Join(report(lines...), e.Stop())
}

// report appends lines to the file that scores reads (../scores/doc.go), if it
// asks for them.
func report(lines ...string) error {
	path := os.Getenv("INTEROP_RESULTS")
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(strings.Join(lines, "\n") + "\n")
	return errors.Join(err, file.Close())
}

func clientVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/rabbitmq/amqp091-go" {
			return module.Version
		}
	}
	return "of unknown version"
}

// users makes who and what the checks need.
func (s *suite) users() error {
	b := s.e.Broker()
	all := access.Permissions{Configure: ".*", Write: ".*", Read: ".*"}
	steps := []func() (uint64, error){
		func() (uint64, error) { return b.AddVHost(broker.VHostSpec{Name: "team one"}) },
		func() (uint64, error) { return b.SetPermissions("root", "team one", all) },
		func() (uint64, error) {
			return b.AddUser(access.Spec{Name: "app", Password: access.HashPassword([]byte("päss"))})
		},
		func() (uint64, error) {
			return b.SetPermissions("app", "/", access.Permissions{Configure: "^app-", Write: "^(app-|amq\\.default$|amq\\.topic$)", Read: "^(app-|amq\\.topic$)"})
		},
		func() (uint64, error) {
			return b.SetTopicPermissions("app", "/", "amq.topic", access.TopicPermissions{Write: "^{username}\\.", Read: ".*"})
		},
		func() (uint64, error) {
			return b.AddUser(access.Spec{Name: "few", Password: access.HashPassword([]byte("few")), Limits: access.Limits{access.MaxConnections: 1, access.MaxChannels: 2}})
		},
		func() (uint64, error) { return b.SetPermissions("few", "/", all) },
	}
	for _, step := range steps {
		if _, err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) dial(user, password, vhost string) (*client.Connection, error) {
	return client.DialConfig(fmt.Sprintf("amqp://%s/", s.e.Addr()), client.Config{
		SASL:  []client.Authentication{&client.PlainAuth{Username: user, Password: password}},
		Vhost: vhost, Locale: "en_US",
	})
}

// channel connects and opens a channel; done closes the connection.
func (s *suite) channel(user, password, vhost string) (ch *client.Channel, done func(), err error) {
	c, err := s.dial(user, password, vhost)
	if err != nil {
		return nil, nil, err
	}
	if ch, err = c.Channel(); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return ch, func() { _ = c.Close() }, nil
}

// want is an error of the client with this code and text.
func want(err error, code int, text string) error {
	var e *client.Error
	if !errors.As(err, &e) || e.Code != code || e.Reason != text {
		return fmt.Errorf("got %v, want %d %q", err, code, text)
	}
	return nil
}
