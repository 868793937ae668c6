package sim

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// CrashAfter lets the n-th operation from now that changes or syncs something
// (see Changes) be the last: it happens partly and fails with ErrPowerCut, as
// does everything after it. What the crash was, PowerCut or Kill says. n <= 0
// takes an armed crash back.
func (d *Disk) CrashAfter(n int64) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.crashAt = 0
	if n > 0 {
		d.crashAt = d.changes + n
	}
}

// Changes counts the operations so far that change or sync something: all but
// reads, ReadDir, Free and the opening of existing files. A history run once
// tells how many crash points it has.
func (d *Disk) Changes() int64 {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.changes
}

// Crashed is closed at the crash point, or when PowerCut or Kill is called.
func (d *Disk) Crashed() <-chan struct{} { return d.crashed }

// crash freezes the Disk. Ops in flight happen partly; their Done is still
// called, with ErrPowerCut, the way the Order says.
func (d *Disk) crash() {
	if d.isCrashed() {
		return
	}
	order := d.random.Perm(len(d.queue))
	for _, i := range order {
		if t := d.queue[i]; !t.done && t.check() == nil {
			d.performPartly(t)
		}
	}
	close(d.crashed)
}

// performPartly does some of an Op that never returns: a write up to any byte,
// the others or not.
func (d *Disk) performPartly(t *task) {
	op, n := t.op, t.file.node
	switch {
	case op.Kind == disk.Write:
		// Out of space ends it early, too.
		_, _ = d.write(n, op.Pos, op.Buf[:d.part(op, d.random.IntN(len(op.Buf)+1))])
	case op.Kind == disk.Read || d.coin():
	case op.Kind == disk.Sync:
		d.sync(n)
	case op.Kind == disk.Truncate:
		d.resize(n, change{kind: truncated, pos: op.Pos})
	case op.Kind == disk.Punch:
		d.resize(n, change{kind: punched, pos: op.Pos, end: op.Pos + op.Len})
	}
}

// part is how much of a write that stops after n bytes is done: of one inside a
// sector all or nothing.
func (d *Disk) part(op *disk.Op, n int) int {
	const least = 512
	if len(op.Buf) > 0 && op.Pos/least == (op.Pos+int64(len(op.Buf))-1)/least && n < len(op.Buf) {
		return 0
	}
	return n
}

// Kill is the death of the process: the returned Disk holds all that was done,
// synced or not, and knows what is unsynced. The old one is dead, its files
// are too. It also serves to reopen after a clean stop.
func (d *Disk) Kill() *Disk {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.crash()
	next := d.successor()
	copies := map[*node]*node{}
	next.root = copyNode(d.root, copies)
	for _, op := range d.nameOps {
		next.nameOps = append(next.nameOps, copyNameOp(op, copies))
	}
	next.countUse()
	return next
}

// PowerCut is the loss of power: the returned Disk holds what was synced and
// what the assumptions of the package let survive of the rest. The old one is
// dead; called again, it returns another outcome of the same cut.
func (d *Disk) PowerCut() *Disk {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.crash()
	next := d.successor()
	stable := map[*node]map[string]*node{} // of the directories that change
	keep := chance(d.random)
	var lost []*nameOp
	for _, op := range d.nameOps {
		if d.random.Float64() >= keep || slices.ContainsFunc(lost, op.needs) {
			lost = append(lost, op)
			continue
		}
		for _, c := range op.changes {
			if stable[c.directory] == nil {
				stable[c.directory] = maps.Clone(c.directory.stable)
			}
			setEntry(stable[c.directory], c.name, c.node)
		}
	}
	cut := &powerCut{disk: d, stable: stable, copies: map[*node]*node{}, sectorBytes: d.sectorBytes()}
	next.root = cut.node(d.root)
	next.countUse()
	return next
}

// successor is an empty Disk that goes on with the random numbers.
func (d *Disk) successor() *Disk {
	options := d.options
	options.Seed = d.random.Uint64()
	return New(options)
}

// sectorBytes draws the unit of tearing unless it is fixed.
func (d *Disk) sectorBytes() int64 {
	if d.options.SectorBytes != 0 {
		return d.options.SectorBytes
	}
	if d.coin() {
		return 512
	}
	return pageBytes
}

// chance draws a probability; the extremes, which real cuts often come to, are
// as likely as all between.
func chance(random *rand.Rand) float64 {
	switch random.IntN(4) {
	case 0:
		return 0
	case 1:
		return 1
	}
	return random.Float64()
}

// countUse recomputes usedPages and links of a tree copied from another Disk.
func (d *Disk) countUse() {
	seen := map[*node]bool{}
	eachFile(d.root, "", func(_ string, n *node) {
		n.links++
		if !seen[n] {
			seen[n] = true
			d.usedPages += int64(len(n.live.pages))
		}
	})
}

// powerCut copies what survives.
type powerCut struct {
	disk        *Disk
	stable      map[*node]map[string]*node
	copies      map[*node]*node
	sectorBytes int64
}

func (p *powerCut) node(n *node) *node {
	if made := p.copies[n]; made != nil {
		return made
	}
	made := &node{}
	p.copies[n] = made
	if !n.isDir() {
		made.durable = p.disk.survivor(n, p.sectorBytes)
		made.live = made.durable.clone()
		return made
	}
	names := p.stable[n]
	if names == nil {
		names = n.stable
	}
	made.entries = map[string]*node{}
	for _, name := range slices.Sorted(maps.Keys(names)) { // sorted: the random numbers depend on it
		made.entries[name] = p.node(names[name])
	}
	made.stable = maps.Clone(made.entries)
	return made
}

// survivor returns a content that a power cut may leave of a file. It writes
// the changes back one after the other to a copy of what is durable: always
// whole sectors, as the cache holds them at that moment, each or not.
func (d *Disk) survivor(n *node, sectorBytes int64) *content {
	cache, platter := n.durable.clone(), n.durable.clone()
	plan := d.newWriteback(len(n.pending))
	uncut := int64(math.MaxInt64) // from here on, an uncommitted truncate keeps later data out
	for i, ch := range n.pending {
		committed := i < plan.committed
		cache.apply(ch)
		if committed && ch.kind != wroteData {
			platter.apply(ch)
			continue
		}
		from, to := ch.pos, ch.pos+int64(len(ch.data))
		switch ch.kind {
		case punched:
			continue
		case truncated:
			uncut = min(uncut, ch.pos)
			to = from // only the sector of the new end, whose rest is zeroed
			if from%sectorBytes != 0 {
				to++
			}
		}
		for pos := from - from%sectorBytes; pos < to; pos += sectorBytes {
			if pos < uncut && plan.arrives(i) {
				platter.copySector(cache, pos, sectorBytes)
			}
		}
		if ch.kind != wroteData {
			continue
		}
		switch {
		case committed:
			platter.size = max(platter.size, to)
		case i == plan.committed && to > platter.size:
			// The size is written back with the pages: it may stand inside the write.
			within := platter.size + d.random.Int64N(to-platter.size+1)
			platter.size = max(platter.size, within-within%sectorBytes)
		}
	}
	platter.free(platter.size, fileBytesMax)
	return platter
}

// writeback is the fate of the unsynced changes of one file.
type writeback struct {
	random    *rand.Rand
	committed int // the size and the holes are those after this many changes
	ordered   int // data of changes before this one arrives wholly, of later ones never; -1: any order
	chance    float64
	change    int     // the one that current belongs to
	current   float64 // the chance of its sectors
}

func (d *Disk) newWriteback(changes int) *writeback {
	w := &writeback{random: d.random, ordered: -1, change: -1}
	w.committed = d.random.IntN(changes + 1)
	switch d.random.IntN(5) {
	case 0: // nothing
		w.ordered, w.committed = 0, 0
	case 1: // everything
		w.committed, w.ordered = changes, changes
	case 2: // in order up to a torn one, the size no further
		w.ordered = w.committed
	default: // in any order
		w.chance = chance(d.random)
	}
	return w
}

// arrives decides about one sector of a change. Changes are asked for in order.
func (w *writeback) arrives(change int) bool {
	if w.ordered >= 0 && change != w.ordered {
		return change < w.ordered
	}
	if change != w.change {
		// Some changes arrive wholly, some not at all, some are torn.
		w.change, w.current = change, w.chance
		if w.ordered >= 0 || w.random.IntN(3) == 0 {
			w.current = chance(w.random)
		}
	}
	return w.random.Float64() < w.current
}

// copyNode copies a tree with its unsynced state.
func copyNode(n *node, copies map[*node]*node) *node {
	if n == nil || copies[n] != nil {
		return copies[n]
	}
	made := &node{}
	copies[n] = made
	if !n.isDir() {
		made.live, made.durable = n.live.clone(), n.durable.clone()
		made.pending = slices.Clone(n.pending) // their data never changes
		return made
	}
	made.entries, made.stable = map[string]*node{}, map[string]*node{}
	for name, child := range n.entries {
		made.entries[name] = copyNode(child, copies)
	}
	for name, child := range n.stable {
		made.stable[name] = copyNode(child, copies)
	}
	return made
}

func copyNameOp(op *nameOp, copies map[*node]*node) *nameOp {
	made := &nameOp{emptied: copyNode(op.emptied, copies)}
	for _, c := range op.changes {
		made.changes = append(made.changes, entryChange{copyNode(c.directory, copies), c.name, copyNode(c.node, copies)})
	}
	for i, n := range op.touched {
		made.touched[i] = copyNode(n, copies)
	}
	for _, n := range op.into {
		made.into = append(made.into, copyNode(n, copies))
	}
	return made
}
