package histories

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// TestRegressions runs seeds that once found a bug and are not among the fixed
// ones that TestHistories runs.
func TestRegressions(t *testing.T) {
	for _, row := range []struct {
		seed uint64
		what string
	}{
		{9976384838744, "header of an unsealed segment whose first sync had failed in an earlier life"},
		{961231386495, "a read in a gap, while what comes after it waits for space, hid that from all readers"},
		{15274499455580, "a group of a life of which nothing came through the cut, behind the equally long first one of the next life"},
		{6585246602008, "strays that fill a file of the journal were carried from file to file without end"},
	} {
		t.Run(row.what, func(t *testing.T) {
			out, err := exec.Command(os.Args[0], "-test.run", "^TestHistories$", "-seed", strconv.FormatUint(row.seed, 10)).CombinedOutput()
			if err != nil {
				t.Errorf("seed %d: %v\n%s", row.seed, err, out)
			}
		})
	}
}
