package results

import "fmt"

// Suite is the JSON result of the suite: the headline table of one broker.
type Suite struct {
	Scenario    string `json:"scenario"`
	Interrupted bool   `json:"interrupted"`
	Error       string `json:"error,omitempty"`

	Seconds    float64        `json:"seconds"` // all of it, yardsticks included
	Sections   []SuiteSection `json:"sections"`
	Yardsticks []Yardstick    `json:"yardsticks"`
	Figures    []Figure       `json:"figures"`
	LeftOut    []LeftOut      `json:"left_out,omitempty"`
	Series     []Series       `json:"series,omitempty"`

	Options     *SuiteLoad  `json:"options"`
	Versions    Versions    `json:"versions"`
	Environment Environment `json:"environment"`
}

// SuiteLoad is what describes how the suite was run.
type SuiteLoad struct {
	URI        string  `json:"uri,omitempty"` // of a running broker, without the password
	OwnBroker  bool    `json:"own_broker"`    // started by the suite, with an empty directory for each section
	Seconds    float64 `json:"seconds"`       // of each figure
	Messages   uint64  `json:"messages"`      // of a backlog
	BrokerSeen bool    `json:"broker_process_seen"`
}

// SuiteSection is a part of the suite. Its error left figures out, not the
// other sections.
type SuiteSection struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// Which direction of a figure is the good one.
const (
	More = "more"
	Less = "less"
)

// Figure is one measured number: as it is, and as a fraction of the yardstick
// that says what this machine allows.
type Figure struct {
	Name           string   `json:"name"`
	Section        string   `json:"section,omitempty"`
	Value          float64  `json:"value"`
	Unit           string   `json:"unit"`
	Better         string   `json:"better"`
	Yardstick      string   `json:"yardstick,omitempty"`
	YardstickValue float64  `json:"yardstick_value,omitempty"`
	Fraction       *float64 `json:"fraction,omitempty"`
}

// Yardstick is what a machine can do at most, measured in the same run.
type Yardstick struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// LeftOut is a figure that was not measured, and why.
type LeftOut struct {
	Figure string `json:"figure"`
	Reason string `json:"reason"`
}

// Series is a figure over time.
type Series struct {
	Name    string    `json:"name"`
	Section string    `json:"section,omitempty"`
	Unit    string    `json:"unit"`
	Seconds []float64 `json:"seconds"` // since the suite began
	Values  []float64 `json:"values"`
}

// Find returns a figure by its name; nil when it was not measured.
func (s *Suite) Find(name string) *Figure {
	for i := range s.Figures {
		if s.Figures[i].Name == name {
			return &s.Figures[i]
		}
	}
	return nil
}

// FindYardstick returns a yardstick by its name; nil when there is none.
func (s *Suite) FindYardstick(name string) *Yardstick {
	for i := range s.Yardsticks {
		if s.Yardsticks[i].Name == name {
			return &s.Yardsticks[i]
		}
	}
	return nil
}

// Check looks for what the rendering relies on.
func (s *Suite) Check() error {
	if s.Options == nil {
		return fmt.Errorf("the result does not say its options")
	}
	for _, figure := range s.Figures {
		if figure.Name == "" || figure.Better != More && figure.Better != Less {
			return fmt.Errorf("the figure %q does not say which direction is better", figure.Name)
		}
	}
	for _, series := range s.Series {
		if len(series.Seconds) != len(series.Values) {
			return fmt.Errorf("the series %q has %d times and %d values", series.Name, len(series.Seconds), len(series.Values))
		}
	}
	return nil
}
