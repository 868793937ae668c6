package arena

import "testing"

func TestPool_KeepsLargeBuffers(t *testing.T) {
	var p Pool
	b := p.Get(1100 * KiB)
	b.Bytes()[0] = 7
	b.Release()
	if got := p.Stats(); got.InUse != 0 || got.Mapped != 1280*KiB || got.Resident != 1280*KiB {
		t.Errorf("after the release: %+v", got)
	}
	if other := p.Get(300 * KiB); other == b {
		t.Error("a buffer more than twice as large as needed was handed out")
	} else {
		other.Release()
	}
	if again := p.Get(600 * KiB); again != b || again.Bytes()[0] != 7 || again.Len() != 1280*KiB {
		t.Error("a buffer that fits was not handed out again")
	} else {
		again.Release()
	}
	if fits := p.Get(300 * KiB); fits == b || fits.Len() != 512*KiB {
		t.Error("the smallest that fits was not handed out")
	} else {
		fits.Release()
	}
}

func TestPool_KeepsFewLargeBuffers(t *testing.T) {
	var p Pool
	var bufs []*Buf
	for range 5 {
		bufs = append(bufs, p.Get(700*KiB))
	}
	for _, b := range bufs {
		b.Release()
	}
	if got := p.Stats(); got.Mapped != 2*768*KiB || got.Resident != got.Mapped || got.InUse != 0 {
		t.Errorf("%+v after releasing five of them", got)
	}
	if b := p.Get(700 * KiB); b != bufs[4] && b != bufs[3] {
		t.Error("what was released first was kept")
	} else {
		b.Release()
	}
	p.Get(largeKeptBytes + 1).Release()
	if got := p.Stats(); got.Mapped != 2*768*KiB {
		t.Errorf("%+v after one that is too large to be kept", got)
	}
}

func TestPool_TrimUnmapsIdleLargeBuffers(t *testing.T) {
	var p Pool
	p.Get(BufBytesMax + 1).Release()
	p.Trim()
	if got := p.Stats(); got.Mapped != 2*BufBytesMax {
		t.Errorf("a buffer free for less than an interval was trimmed: %+v", got)
	}
	p.Trim()
	if got := p.Stats(); got != (Stats{}) {
		t.Errorf("%+v after trimming", got)
	}
	held := p.Get(BufBytesMax + 1)
	p.Get(4 * BufBytesMax).Release()
	p.TrimAll()
	if got := p.Stats(); got.Mapped != 2*BufBytesMax || got.Resident != got.InUse {
		t.Errorf("%+v after trimming all that is free", got)
	}
	held.Release()
}
