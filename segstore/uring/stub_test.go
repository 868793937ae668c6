package uring

import (
	"errors"
	"strings"
	"testing"
)

func TestStub_SaysHowItWasBuilt(t *testing.T) {
	if Built {
		t.Skip("this binary has io_uring")
	}
	err := Probe()
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "built without io_uring") {
		t.Errorf("error %v", err)
	}
}
