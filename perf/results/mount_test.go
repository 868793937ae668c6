package results

import "testing"

const mountInfoExample = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
23 22 0:21 / /proc rw,nosuid shared:5 - proc proc rw
40 22 8:1 / /srv rw,noatime shared:1 master:2 - xfs /dev/sda1 rw,logbsize=256k
41 40 8:2 / /srv/with\040blank ro,noexec - btrfs /dev/sda2 ro,compress=zstd
42 22 8:3 / /data rw - ext4 /dev/old rw,first
43 22 8:4 / /data rw - xfs /dev/new rw,second
44 22 8:5 / /cut rw,relatime
`

func TestFindMountOptions(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/":                 "rw,relatime; rw,discard",
		"/home/x":           "rw,relatime; rw,discard",
		"/srv":              "rw,noatime; rw,logbsize=256k",
		"/srv/q":            "rw,noatime; rw,logbsize=256k",
		"/srvother":         "rw,relatime; rw,discard",
		"/srv/with blank/q": "ro,noexec; ro,compress=zstd",
		"/data/x":           "rw; rw,second",
		"/cut/x":            "rw,relatime; rw,discard",
	} {
		if got := findMountOptions([]byte(mountInfoExample), path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := findMountOptions(nil, "/x"); got != "" {
		t.Errorf("no mounts: %q", got)
	}
	if mountOptions(t.TempDir()) == "" {
		t.Error("no options of an existing directory")
	}
	if mountOptions("/nonexistent/x") != "" || mountOptions("") != "" {
		t.Error("options of nothing")
	}
}

func FuzzFindMountOptions(f *testing.F) {
	f.Add([]byte(mountInfoExample), "/srv/x")
	f.Add([]byte("1 2 3 4 / 6 7 8 9 - -"), "/")
	f.Fuzz(func(_ *testing.T, raw []byte, path string) { findMountOptions(raw, path) })
}
