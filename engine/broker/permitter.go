package broker

import (
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/wire/amqp"
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
func permitForwarding(by Permitter, kind, name string, arguments amqp.Table, argument string) error {
	v, ok := arguments.Lookup(argument)
	if !ok {
		return nil
	}
	target, ok := v.Bytes()
	if !ok {
		return nil
	}
	if err := permit(by, access.Read, kind, name); err != nil {
		return err
	}
	return permit(by, access.Write, "exchange", string(target))
}
