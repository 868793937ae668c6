package broker

import (
	"github.com/basaltmq/basaltmq/engine/access"
)

// Permitter says whether the one who asks may do what a declaration entails:
// nil, or the error to answer with. kind is "exchange" or "queue". It is called
// with the vhost's lock held.
type Permitter interface {
	Permit(p access.Permission, kind, name string) error
}

// permit asks by, if there is somebody to ask.
func permit(by Permitter, p access.Permission, kind, name string) error {
	if by == nil {
		return nil
	}
	return by.Permit(p, kind, name)
}

// permitForwarding asks for what an argument entails that names an exchange to
// send messages on to: reading from what is declared, writing to that exchange.
func permitForwarding(by Permitter, kind, name, target string) error {
	if err := permit(by, access.Read, kind, name); err != nil {
		return err
	}
	return permit(by, access.Write, "exchange", target)
}

// permitDeadLetters is permitForwarding for a queue's dead letters.
func permitDeadLetters(d *QueueDeclare) error {
	if v, ok := d.Arguments.Lookup("x-dead-letter-exchange"); ok {
		if target, ok := v.Bytes(); ok {
			return permitForwarding(d.By, "queue", d.Name, string(target))
		}
	}
	return nil
}
