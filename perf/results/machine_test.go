package results

import "testing"

func TestParseARMModel(t *testing.T) {
	t.Parallel()
	const graviton4 = "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n" +
		"CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 1\n\nprocessor\t: 1\nCPU part\t: 0xd0c\n"
	for cpuinfo, want := range map[string]string{
		graviton4: "Arm Neoverse V2",
		"CPU implementer\t: 0x61\nCPU part\t: 0x022\n": "Arm, implementer 0x61, part 0x022",
		"model name\t: AMD EPYC\n":                     "",
		"":                                             "",
	} {
		if got := parseARMModel([]byte(cpuinfo)); got != want {
			t.Errorf("%q: %q, want %q", cpuinfo, got, want)
		}
	}
}

func TestParseMemoryTotal(t *testing.T) {
	t.Parallel()
	for meminfo, want := range map[string]uint64{
		"MemTotal:        4030824 kB\nMemFree:         2000 kB\n": 4030824 << 10, "MemFree: 1 kB\n": 0, "": 0, "MemTotal: many kB\n": 0,
	} {
		if got := parseMemoryTotal([]byte(meminfo)); got != want {
			t.Errorf("%q: %d, want %d", meminfo, got, want)
		}
	}
}
