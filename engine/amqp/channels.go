package amqp

import "slices"

// channelTable holds a connection's channels, sorted by number: most
// connections have one or two, and a map of that size takes 200 bytes.
type channelTable []*channel

func (t channelTable) find(number uint16) (int, bool) {
	return slices.BinarySearchFunc(t, number, func(ch *channel, number uint16) int { return int(ch.id) - int(number) })
}

// get returns the channel with that number, or nil.
func (t channelTable) get(number uint16) *channel {
	if i, found := t.find(number); found {
		return t[i]
	}
	return nil
}

// add puts a channel in whose number is free.
func (t *channelTable) add(ch *channel) {
	i, _ := t.find(ch.id)
	*t = slices.Insert(*t, i, ch)
}

func (t *channelTable) remove(number uint16) {
	if i, found := t.find(number); found {
		*t = slices.Delete(*t, i, i+1)
	}
}
