package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unitScale lists the suffixes of sizes and counts. Letters without "i" are
// powers of 1000, with "i" powers of 1024, as IEC 80000-13 has them; a final
// "B" is optional.
var unitScale = map[string]float64{
	"":   1,
	"k":  1e3,
	"m":  1e6,
	"g":  1e9,
	"ki": 1 << 10,
	"mi": 1 << 20,
	"gi": 1 << 30,
}

// ParseQuantity reads a number with an optional unit: "16", "1k", "64KiB",
// "2.5M". Case does not matter. The result is a whole, non-negative number.
func ParseQuantity(text string) (uint64, error) {
	digits := strings.TrimSpace(text)
	split := strings.LastIndexAny(digits, "0123456789.") + 1
	unit := strings.ToLower(strings.TrimSpace(digits[split:]))
	scale, known := unitScale[strings.TrimSuffix(unit, "b")]
	if split == 0 || !known {
		return 0, fmt.Errorf("%q is not a number with an optional unit (k, M, G, KiB, MiB, GiB)", text)
	}
	number, err := strconv.ParseFloat(digits[:split], 64)
	if err != nil || number < 0 || math.IsNaN(number) || number*scale >= 1<<63 {
		return 0, fmt.Errorf("%q is not a number between 0 and 2^63", text)
	}
	value := uint64(number*scale + 0.5)
	return value, nil
}

// parseDuration reads "10" (seconds), "1.5", "10s", "2m", "500ms".
func parseDuration(text string) (time.Duration, error) {
	trimmed := strings.TrimSpace(text)
	if seconds, err := strconv.ParseFloat(trimmed, 64); err == nil {
		if seconds < 0 || math.IsNaN(seconds) || seconds > 1e9 {
			return 0, fmt.Errorf("%q is not a duration between 0 and 1e9 seconds", text)
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	duration, err := time.ParseDuration(trimmed)
	if err != nil || duration < 0 {
		return 0, fmt.Errorf("%q is not a duration (10, 10s, 500ms, 2m)", text)
	}
	return duration, nil
}

// quantityFlag, countFlag and durationFlag are flag.Values with human units.
type quantityFlag struct{ target *uint64 }

func (q quantityFlag) Set(text string) (err error) {
	value, err := ParseQuantity(text)
	if err == nil {
		*q.target = value
	}
	return err
}

func (q quantityFlag) String() string {
	if q.target == nil {
		return ""
	}
	return strconv.FormatUint(*q.target, 10)
}

type countFlag struct{ target *int }

func (c countFlag) Set(text string) error {
	value, err := ParseQuantity(text)
	if err != nil {
		return err
	}
	if value > math.MaxInt32 {
		return fmt.Errorf("%q is above %d", text, math.MaxInt32)
	}
	*c.target = int(value)
	return nil
}

func (c countFlag) String() string {
	if c.target == nil {
		return ""
	}
	return strconv.Itoa(*c.target)
}

type durationFlag struct{ target *time.Duration }

func (d durationFlag) Set(text string) (err error) {
	value, err := parseDuration(text)
	if err == nil {
		*d.target = value
	}
	return err
}

func (d durationFlag) String() string {
	if d.target == nil {
		return ""
	}
	return d.target.String()
}
