package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"github.com/basaltmq/basaltmq/engine/access"
)

// checks are run in order; each leaves the users as it found them.
var checks = []struct {
	name string
	do   func(s *suite) error
}{
	{"a user without permissions in a vhost cannot open it", func(s *suite) error {
		_, err := s.dial("app", "päss", "team one")
		return want(err, 530, "NOT_ALLOWED - access to vhost 'team one' refused for user 'app'")
	}},
	{"a wrong password is refused with 403", func(s *suite) error {
		_, err := s.dial("app", "wrong", "/")
		if !errors.Is(err, client.ErrCredentials) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	}},
	{"AMQPLAIN logs in, too", func(s *suite) error {
		c, err := client.DialConfig(fmt.Sprintf("amqp://%s/", s.e.Addr()), client.Config{
			SASL: []client.Authentication{&client.AMQPlainAuth{Username: "app", Password: "päss"}}, Vhost: "/", Locale: "en_US",
		})
		if err != nil {
			return err
		}
		return c.Close()
	}},
	{"declare, bind, publish and get what is permitted", func(s *suite) error {
		ch, done, err := s.channel("app", "päss", "/")
		if err != nil {
			return err
		}
		defer done()
		if err := ch.Confirm(false); err != nil {
			return err
		}
		if _, err := ch.QueueDeclare("app-q", true, false, false, false, nil); err != nil {
			return err
		}
		if err := ch.QueueBind("app-q", "app.*", "amq.topic", false, nil); err != nil {
			return err
		}
		for _, to := range [][2]string{{"", "app-q"}, {"amq.topic", "app.x"}} {
			if err := publish(ch, to[0], to[1]); err != nil {
				return err
			}
			if m, ok, err := ch.Get("app-q", true); err != nil || !ok || string(m.Body) != "m" {
				return fmt.Errorf("%v: got %q, %v, %v", to, m.Body, ok, err)
			}
		}
		_, err = ch.QueueDelete("app-q", false, false, false)
		return err
	}},
	{"declare without configure is 403", refusal(403, "ACCESS_REFUSED - configure access to queue 'other' in vhost '/' refused for user 'app'", func(ch *client.Channel) error {
		_, err := ch.QueueDeclare("other", false, false, false, false, nil)
		return err
	})},
	{"consume without read is 403", refusal(403, "ACCESS_REFUSED - read access to queue 'other' in vhost '/' refused for user 'app'", func(ch *client.Channel) error {
		_, err := ch.Consume("other", "", true, false, false, false, nil)
		return err
	})},
	{"publish without write is 403", refusal(403, "ACCESS_REFUSED - write access to exchange 'amq.direct' in vhost '/' refused for user 'app'", func(ch *client.Channel) error {
		return closed(ch, func() error { return publishNow(ch, "amq.direct", "k") })
	})},
	{"publish with another's routing key is 403", refusal(403, "ACCESS_REFUSED - write access to topic 'other.x' in exchange topic 'amq.topic' in vhost '/' refused for user 'app'", func(ch *client.Channel) error {
		return closed(ch, func() error { return publishNow(ch, "amq.topic", "other.x") })
	})},
	{"publish with another's user id is 406", refusal(406, "PRECONDITION_FAILED - user_id property set to 'root' but authenticated user was 'app'", func(ch *client.Channel) error {
		return closed(ch, func() error {
			return ch.PublishWithContext(context.Background(), "", "app-q", false, false, client.Publishing{UserId: "root"})
		})
	})},
	{"a withdrawn permission counts for the next publish", func(s *suite) error {
		ch, done, err := s.channel("app", "päss", "/")
		if err != nil {
			return err
		}
		defer done()
		if err := ch.Confirm(false); err != nil {
			return err
		}
		for range 3 {
			if err := publish(ch, "", "app-none"); err != nil {
				return err
			}
		}
		b := s.e.Broker()
		before := b.Permissions("app", "/")[0].Permissions
		if _, err := b.SetPermissions("app", "/", access.Permissions{Configure: before.Configure, Read: before.Read}); err != nil {
			return err
		}
		err = closed(ch, func() error { return publishNow(ch, "", "app-none") })
		if _, restored := b.SetPermissions("app", "/", before); restored != nil {
			return restored
		}
		return want(err, 403, "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'app'")
	}},
	{"limits of connections and channels", func(s *suite) error {
		c, err := s.dial("few", "few", "/")
		if err != nil {
			return err
		}
		_, err = s.dial("few", "few", "/")
		if err := want(err, 530, "NOT_ALLOWED - connection refused for user 'few': user connection limit (1) is reached"); err != nil {
			return err
		}
		gone := c.NotifyClose(make(chan *client.Error, 1))
		for range 2 {
			if _, err := c.Channel(); err != nil {
				return err
			}
		}
		_, _ = c.Channel() // the answer is the connection's end
		select {
		case e := <-gone:
			if err := want(e, 530, "NOT_ALLOWED - number of channels opened for user 'few' has reached the maximum allowed user limit of (2)"); err != nil {
				return err
			}
		case <-time.After(patience):
			return errors.New("the connection stays open")
		}
		if c, err = s.dial("few", "few", "/"); err != nil {
			return fmt.Errorf("the place is not free: %w", err)
		}
		return c.Close()
	}},
	{"deleting a vhost and a user closes their connections", func(s *suite) error {
		b := s.e.Broker()
		for _, row := range []struct {
			user, vhost, text string
			do                func() (uint64, error)
		}{
			{"root", "team one", "CONNECTION_FORCED - vhost 'team one' is deleted", func() (uint64, error) { return b.DeleteVHost("team one") }},
			{"app", "/", "CONNECTION_FORCED - user 'app' is deleted", func() (uint64, error) { return b.DeleteUser("app") }},
		} {
			password := map[string]string{"root": "root", "app": "päss"}[row.user]
			c, err := s.dial(row.user, password, row.vhost)
			if err != nil {
				return err
			}
			gone := c.NotifyClose(make(chan *client.Error, 1))
			if _, err := row.do(); err != nil {
				return err
			}
			select {
			case e := <-gone:
				if err := want(e, 320, row.text); err != nil {
					return err
				}
			case <-time.After(patience):
				return errors.New("the connection stays open")
			}
		}
		return nil
	}},
}

// refusal makes a check of one operation of the user app that closes its channel.
func refusal(code int, text string, do func(ch *client.Channel) error) func(s *suite) error {
	return func(s *suite) error {
		ch, done, err := s.channel("app", "päss", "/")
		if err != nil {
			return err
		}
		defer done()
		return want(do(ch), code, text)
	}
}

// publish waits for the confirm.
func publish(ch *client.Channel, exchange, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, false, false, client.Publishing{Body: []byte("m")})
	if err != nil {
		return err
	}
	ok, err := confirm.WaitContext(ctx)
	if err == nil && !ok {
		err = errors.New("nacked")
	}
	return err
}

// publishNow does not wait.
func publishNow(ch *client.Channel, exchange, key string) error {
	return ch.PublishWithContext(context.Background(), exchange, key, false, false, client.Publishing{Body: []byte("m")})
}

// closed returns with what the channel was closed after do.
func closed(ch *client.Channel, do func() error) error {
	gone := ch.NotifyClose(make(chan *client.Error, 1))
	if err := do(); err != nil {
		return err
	}
	select {
	case e := <-gone:
		return e
	case <-time.After(patience):
		return errors.New("the channel stays open")
	}
}
