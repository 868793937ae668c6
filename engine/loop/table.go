package loop

// table finds a loop's connections by their descriptors: small numbers, which
// the process gives out lowest first. A map would take four times the memory
// and be asked for each event.
type table struct {
	slots []*Conn // by descriptor
	count int
}

// tableSlotsKept is how many slots an empty table keeps.
const tableSlotsKept = 1024

// get returns the connection with that descriptor, or nil.
func (t *table) get(fd int32) *Conn {
	if uint(fd) < uint(len(t.slots)) {
		return t.slots[fd]
	}
	return nil
}

func (t *table) add(c *Conn) {
	for len(t.slots) <= int(c.desc) {
		t.slots = append(t.slots, nil)
	}
	t.slots[c.desc] = c
	t.count++
}

func (t *table) remove(c *Conn) {
	t.slots[c.desc] = nil
	if t.count--; t.count == 0 && cap(t.slots) > tableSlotsKept {
		t.slots = nil
	}
}
