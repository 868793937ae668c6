package segstore

import (
	"maps"
	"slices"
)

// losePower keeps of everything unsynced only what keep says.
func (d *memDisk) losePower(keep func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.fail = -1, nil
	d.root.losePower(keep)
}

func (n *memNode) losePower(keep func() bool) {
	if !n.dir {
		data := slices.Clone(n.stable)
		for _, w := range n.pending {
			if keep() {
				if len(w.data) > 1 && tears(w.pos, w.data) && !keep() {
					w.data = w.data[:len(w.data)/2]
				}
				data = w.on(data)
			}
		}
		n.data, n.stable, n.pending = data, slices.Clone(data), nil
		return
	}
	names := maps.Clone(n.children)
	for name, node := range n.synced {
		if n.children[name] == nil && keep() {
			continue // its removal arrived
		}
		if n.children[name] != node && n.children[name] != nil && keep() {
			continue // its replacement arrived
		}
		names[name] = node
	}
	for name := range n.children {
		if n.synced[name] == nil && !keep() {
			delete(names, name)
		}
	}
	n.children, n.synced = names, maps.Clone(names)
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		n.children[name].losePower(keep)
	}
}

// tears says that a write may be done by half: it is not inside one sector.
func tears(pos int64, buf []byte) bool {
	return pos/sectorBytes != (pos+int64(len(buf))-1)/sectorBytes
}
