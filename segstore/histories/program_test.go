package histories

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// A program is a history before it is run: a configuration and operations. What
// an operation does in detail is drawn from its own seed and from the state it
// finds, so that any part of a program is a program too: that is what shrinking
// needs.
type program struct {
	seed   uint64
	config config
	ops    []op
}

type op struct {
	kind opKind
	seed uint64
}

type config struct {
	order         sim.Order
	sectorBytes   int64
	segmentBytes  int64
	journalBytes  int64
	heldBytes     int64
	punchBytes    int64
	flushInterval time.Duration
	syncInterval  time.Duration
	tailBytesHigh int64
	durabilityOS  bool
	logs          int
	bodyBytesMax  int
	theme         theme
}

// theme is what may go wrong in a history.
type theme uint8

const (
	themeCrash  theme = iota // kills, power cuts, also in the middle of anything
	themeClean               // nothing
	themeSpace               // the disk gets full, and crashes
	themeError               // I/O errors, and crashes
	themeFlip                // bits flip, and crashes
	themeRepair              // I/O errors that are mended while the store runs, and crashes
	themeUnread              // logs that cannot be read at a start, and are mended later
	themes
)

type opKind uint8

const (
	opAppend opKind = iota
	opBulk
	opScatter
	opStuck
	opWant
	opConfirm
	opTake
	opSettleInOrder
	opSettleAny
	opRequeue
	opSettleRandom
	opRead
	opReaders
	opPurge
	opDelete
	opCursor
	opTick
	opSyncTick
	opRest
	opRestLong
	opHold
	opStep
	opRelease
	opCommit
	opMeta
	opClose
	opCloseBusy
	opKill
	opPowerCut
	opArmCrash
	opStarve
	opFeed
	opFail
	opFlip
	opFlipStopped
	opCheck
	opOpenLate
	opBreak // from here on only in themes of their own: others draw as before
	opReopen
	opUnread
	opReread
	opGiveUp
	opKinds
)

var opNames = [opKinds]string{
	"append", "bulk", "scatter", "stuck", "want", "confirm", "take", "settle-in-order", "settle-any", "requeue", "settle-random", "read", "readers", "purge",
	"delete", "cursor", "tick", "sync-tick", "rest", "rest-long", "hold", "step", "release", "commit", "meta", "close", "close-busy", "kill", "power-cut",
	"arm-crash", "starve", "feed", "fail", "flip", "flip-stopped", "check", "open-late",
	"break", "reopen",
	"unread", "reread", "give-up",
}

func (k opKind) String() string { return opNames[k] }

// weights of the operations in all histories; themes add theirs.
var weights = [opKinds]int{
	opAppend: 220, opBulk: 4, opScatter: 1, opStuck: 6, opWant: 40, opConfirm: 50, opTake: 60, opSettleInOrder: 50, opSettleAny: 40, opRequeue: 12, opSettleRandom: 20,
	opRead: 15, opReaders: 40, opPurge: 6, opDelete: 5, opCursor: 12, opTick: 60, opSyncTick: 15, opRest: 6, opRestLong: 5, opHold: 20, opStep: 40,
	opRelease: 6, opCommit: 30, opMeta: 20, opClose: 7, opCheck: 5, opOpenLate: 4,
}

var themeWeights = [themes][opKinds]int{
	themeCrash:  {opCloseBusy: 8, opKill: 12, opPowerCut: 16, opArmCrash: 16},
	themeClean:  {opClose: 10},
	themeSpace:  {opStarve: 30, opFeed: 25, opKill: 5, opPowerCut: 8, opArmCrash: 5},
	themeError:  {opFail: 30, opKill: 8, opPowerCut: 10, opArmCrash: 3},
	themeFlip:   {opFlip: 15, opFlipStopped: 20, opKill: 8, opPowerCut: 8, opRestLong: 5},
	themeUnread: {opUnread: 40, opReread: 50, opGiveUp: 2, opClose: 4, opKill: 8, opPowerCut: 12, opArmCrash: 6, opRestLong: 8, opBulk: 8, opReopen: 4},
	themeRepair: {opBreak: 40, opFail: 4, opReopen: 50, opKill: 6, opPowerCut: 10, opArmCrash: 4, opStarve: 3, opFeed: 6},
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// newProgram draws the history of a seed.
func newProgram(seed uint64) *program {
	rng := rand.New(rand.NewPCG(seed, 0xb45a17))
	c := config{
		order:         pick(rng, sim.Ordered, sim.Manual, sim.Manual),
		sectorBytes:   pick[int64](rng, 0, 512, 4096),
		segmentBytes:  pick[int64](rng, 1<<10, 4<<10, 16<<10, 64<<10, 1<<20),
		journalBytes:  pick[int64](rng, 16<<10, 64<<10, 256<<10, 1<<20),
		heldBytes:     pick[int64](rng, 1<<10, 16<<10, 8<<20),
		flushInterval: 10 * time.Millisecond,
		syncInterval:  pick(rng, 20*time.Millisecond, 200*time.Millisecond, time.Second),
		tailBytesHigh: pick[int64](rng, 8<<10, 64<<10, 24<<20),
		durabilityOS:  rng.IntN(8) == 0,
		logs:          1 + rng.IntN(4),
		bodyBytesMax:  pick(rng, 20, 100, 100, 700, 700, 3000, 100<<10),
		punchBytes:    1 << (seed % 14),
		theme:         theme(pick(rng, themeCrash, themeCrash, themeCrash, themeClean, themeSpace, themeError, themeFlip)),
	}
	if seed%5 == 2 { // not drawn: seeds that found something keep what they had
		c.theme = themeRepair
	}
	if seed%10 == 4 {
		c.theme = themeUnread
	}
	p := &program{seed: seed, config: c}
	total := 0
	var sums [opKinds]int
	for k := range sums {
		total += weights[k] + themeWeights[c.theme][k]
		sums[k] = total
	}
	for range pick(rng, 8, 20, 40, 80, 150) {
		at := rng.IntN(total)
		kind := opKind(0)
		for sums[kind] <= at {
			kind++
		}
		p.ops = append(p.ops, op{kind, rng.Uint64()})
	}
	return p
}

func (p *program) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%+v\n", p.config)
	for i, o := range p.ops {
		fmt.Fprintf(&out, "%s ", o.kind)
		if i%12 == 11 {
			out.WriteByte('\n')
		}
	}
	return out.String()
}
