package engine

import (
	"os"
	"slices"
	"testing"
)

func TestProgramMappings(t *testing.T) {
	const maps = `00400000-00816000 r-xp 00000000 fe:00 131 /opt/b/basaltmq
00816000-00c40000 r--p 00416000 fe:00 131 /opt/b/basaltmq
00c40000-00c80000 rw-p 00840000 fe:00 131 /opt/b/basaltmq
00c80000-00c90000 r--s 00840000 fe:00 131 /opt/b/basaltmq
c000000000-c000400000 rw-p 00000000 00:00 0
7f0000000000-7f0000001000 r-xp 00000000 fe:00 7 /usr/lib/libc.so
xyz-00001000 r--p 00000000 fe:00 131 /opt/b/basaltmq
7ffc0000-7ffc1000 r-xp 00000000 00:00 0 [vdso]
`
	got := programMappings([]byte(maps), "/opt/b/basaltmq")
	if want := []mapping{{0x400000, 0x816000}, {0x816000, 0xc40000}}; !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// TestGiveBackProgram: the program goes on, with its constants and its code.
func TestGiveBackProgram(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if len(programMappings(maps, exe)) == 0 {
		t.Fatalf("no mapping of the program in\n%s", maps)
	}
	giveBackProgram()
	TestProgramMappings(t)
}
