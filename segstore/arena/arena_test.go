package arena

import (
	"sync"
	"testing"
)

func TestPool_SizeClasses(t *testing.T) {
	var p Pool
	for _, tc := range []struct{ ask, want int }{
		{1, 4 * KiB}, {4 * KiB, 4 * KiB}, {4*KiB + 1, 16 * KiB}, {60 * KiB, 64 * KiB},
		{65 * KiB, 256 * KiB}, {256 * KiB, 256 * KiB}, {256*KiB + 1, 512 * KiB},
	} {
		b := p.Get(tc.ask)
		if b.Len() != tc.want {
			t.Errorf("Get(%d): %d bytes, want %d", tc.ask, b.Len(), tc.want)
		}
		b.Bytes()[0], b.Bytes()[b.Len()-1] = 1, 2
		b.Release()
	}
	if got := p.Stats().InUse; got != 0 {
		t.Errorf("in use after releasing everything: %d", got)
	}
}

func TestPool_ReusesHottestFirst(t *testing.T) {
	var p Pool
	a, b := p.Get(KiB), p.Get(KiB)
	a.Release()
	b.Release()
	if c := p.Get(KiB); c != b {
		t.Error("the buffer released last was not handed out first")
	}
}

func TestPool_TrimDropsOnlyIdlePages(t *testing.T) {
	var p Pool
	held := p.Get(BufBytesMax)
	held.Bytes()[0] = 7
	idle := p.Get(BufBytesMax)
	idle.Bytes()[0] = 9
	idle.Release()
	p.Trim()
	if got := p.Stats().Resident; got != 2*BufBytesMax {
		t.Errorf("a buffer free for less than an interval was trimmed: resident %d", got)
	}
	p.Trim()
	if got := p.Stats().Resident; got != BufBytesMax {
		t.Errorf("resident after trimming: %d, want %d", got, BufBytesMax)
	}
	if held.Bytes()[0] != 7 {
		t.Error("a held buffer lost its contents")
	}
	held.Release()
}

func TestPool_TrimAllDropsAllFreePages(t *testing.T) {
	var p Pool
	held := p.Get(4 * KiB)
	held.Bytes()[0] = 7
	var bufs []*Buf
	for range 3*trimBatch + 1 {
		bufs = append(bufs, p.Get(4*KiB), p.Get(64*KiB))
	}
	for _, b := range bufs {
		b.Bytes()[0] = 9
		b.Release()
	}
	p.TrimAll()
	if got := p.Stats().Resident; got != 4*KiB || held.Bytes()[0] != 7 {
		t.Errorf("%d bytes are resident, and the buffer that is held begins with %d", got, held.Bytes()[0])
	}
	seen := map[*Buf]bool{held: true}
	for range bufs {
		for _, size := range []int{4 * KiB, 64 * KiB} {
			b := p.Get(size)
			if seen[b] || b.Bytes()[0] != 0 {
				t.Fatal("a buffer was handed out twice, or kept its pages")
			}
			seen[b] = true
		}
	}
}

func TestBuf_MisuseIsCaught(t *testing.T) {
	var p Pool
	b := p.Get(1)
	b.Release()
	for name, f := range map[string]func(){"release": b.Release, "retain": b.Retain} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a free buffer did not panic", name)
				}
				b.refs.Store(0)
			}()
			f()
		}()
	}
}

func TestPool_ConcurrentOwnersNeverShare(t *testing.T) {
	var p Pool
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				b := p.Get(1 + (i%5)*20*KiB + i%7/6*300*KiB)
				b.Bytes()[0] = byte(g)
				if i%3 == 0 {
					p.Trim()
				}
				if b.Bytes()[0] != byte(g) {
					t.Error("two owners of one buffer")
				}
				b.Release()
			}
		})
	}
	wg.Wait()
}
