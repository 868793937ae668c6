package amqp

import "slices"

// channelTable holds a connection's channels, sorted by number: most
// connections have one or two, and a map of that size takes 200 bytes.
type channelTable []*channel

// find returns the place of a number, or where it belongs. Clients count their
// channels from 1, so it is tried first where it would then be.
func (t channelTable) find(number uint16) (int, bool) {
	if i := int(number) - 1; i >= 0 && i < len(t) && t[i].id == number {
		return i, true
	}
	low, high := 0, len(t)
	for low < high {
		if i := int(uint(low+high) >> 1); t[i].id < number {
			low = i + 1
		} else {
			high = i
		}
	}
	return low, low < len(t) && t[low].id == number
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
