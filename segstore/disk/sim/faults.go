package sim

import (
	"fmt"
	"path"
	"strings"
	"syscall"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Call is a set of operations that a Rule can match.
type Call uint16

const (
	CallWrite Call = 1 << iota
	CallRead
	CallSync
	CallTruncate
	CallPunch
	CallOpen   // of an existing file
	CallCreate // Open that makes the file
	CallMkdir
	CallRemove
	CallRename
	CallLink
	CallSyncDir
	CallReadDir
	CallFree

	CallAny = CallFree<<1 - 1
)

var callNames = [...]string{"write", "read", "sync", "truncate", "punch", "open", "create", "mkdir", "remove", "rename", "link", "syncdir", "readdir", "free"}

// String lists the names of the calls.
func (c Call) String() string {
	var names []string
	for i, name := range callNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

func callOf(kind disk.Kind) Call {
	if kind > disk.Punch {
		return 0
	}
	return CallWrite << kind
}

// Rule describes a fault.
type Rule struct {
	// Path is a pattern of path.Match: with a slash for the whole path, without
	// one for its last name. Empty matches all. A rename or link matches by
	// either of its paths.
	Path string
	// Calls is what to match; 0 is CallAny.
	Calls Call
	// After lets this many matching calls pass first.
	After int
	// Count ends the rule after it struck this often; 0 is never.
	Count int
	// Probability of striking a matching call; 0 is always.
	Probability float64
	// Err is what the call fails with; nil is EIO unless Short or Flip is set.
	// A call that fails does nothing, but a Sync that fails loses data, and so
	// does a Short write do a part.
	Err error
	// Short makes a Write stop somewhere before its end and continue (rule 2 of
	// package disk): into Err, or to the end if Err is nil.
	Short bool
	// Flip makes a Read succeed with one bit wrong. It goes without Err.
	Flip bool
}

// Injection is a Rule at work.
type Injection struct {
	Rule
	disk    *Disk
	matched int
	struck  int
	removed bool
}

// Inject adds a rule; of several that strike a call, the first added counts. It
// panics on a rule that makes no sense.
func (d *Disk) Inject(rule Rule) *Injection {
	if _, err := path.Match(rule.Path, ""); err != nil {
		panic(fmt.Sprintf("sim: pattern %q: %v", rule.Path, err))
	}
	if rule.Calls == 0 {
		rule.Calls = CallAny
	}
	switch {
	case rule.Flip && (rule.Short || rule.Err != nil || rule.Calls != CallRead):
		panic("sim: Flip is for CallRead and goes without Short and Err")
	case rule.Short && rule.Calls != CallWrite:
		panic("sim: Short is for CallWrite")
	case !rule.Flip && !rule.Short && rule.Err == nil:
		rule.Err = syscall.EIO
	}
	injection := &Injection{Rule: rule, disk: d}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.rules = append(d.rules, injection)
	return injection
}

// Struck is how often the rule struck.
func (i *Injection) Struck() int {
	i.disk.mutex.Lock()
	defer i.disk.mutex.Unlock()
	return i.struck
}

// Remove ends the rule.
func (i *Injection) Remove() {
	i.disk.mutex.Lock()
	defer i.disk.mutex.Unlock()
	i.removed = true
}

// error is what the call fails with; nil for none, also on a nil Injection.
func (i *Injection) error() error {
	if i == nil {
		return nil
	}
	return i.Err
}

func (d *Disk) faultError(call Call, paths ...string) error { return d.fault(call, paths...).error() }

// fault returns the rule that strikes a call, or nil.
func (d *Disk) fault(call Call, paths ...string) *Injection {
	for _, i := range d.rules {
		if i.removed || i.Calls&call == 0 || !i.matchesAny(paths) || i.Count > 0 && i.struck >= i.Count {
			continue
		}
		i.matched++
		if i.matched <= i.After || i.Probability > 0 && d.random.Float64() >= i.Probability {
			continue
		}
		i.struck++
		return i
	}
	return nil
}

func (i *Injection) matchesAny(paths []string) bool {
	for _, name := range paths {
		if i.Path == "" {
			return true
		}
		if !strings.Contains(i.Path, "/") {
			name = path.Base(name)
		}
		if matched, _ := path.Match(i.Path, name); matched {
			return true
		}
	}
	return false
}

// Flip turns one bit (0 to 7) of the byte at pos of a file, on the disk and in
// what the process reads, without any trace. Bytes never synced and written
// again by a later change are not protected from that change.
func (d *Disk) Flip(name string, pos int64, bit uint) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	n, err := d.findFile(name)
	if err == nil && (pos < 0 || pos >= n.live.size || bit > 7) {
		err = syscall.EINVAL
	}
	if err != nil {
		return pathError("flip", name, err)
	}
	before := len(n.live.pages)
	for _, c := range []*content{n.live, n.durable} {
		if pos < c.size {
			c.own(pos / pageBytes).data[pos%pageBytes] ^= 1 << bit
		}
	}
	d.usedPages += int64(len(n.live.pages) - before)
	return nil
}

func (d *Disk) findFile(name string) (*node, error) {
	n, err := d.find(name)
	if err == nil && n.isDir() {
		return nil, syscall.EISDIR
	}
	return n, err
}

// unlimitedBytes is what Free counts down from without a budget.
const unlimitedBytes = 1 << 50

// SetBudget changes the capacity of the disk: bytes, of which whole blocks
// count; 0 is unlimited. Less than what is used leaves nothing free.
func (d *Disk) SetBudget(bytes int64) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.options.BudgetBytes = bytes
}

func (d *Disk) freePages() int64 {
	budget := d.options.BudgetBytes
	if budget <= 0 {
		budget = unlimitedBytes
	}
	return max(0, budget/pageBytes-d.usedPages)
}

// Free implements disk.Disk.
func (d *Disk) Free() (free int64, err error) {
	err = d.look(CallFree, ".", func() error {
		free = d.freePages() * pageBytes
		return nil
	})
	return free, pathError("statfs", ".", err)
}
