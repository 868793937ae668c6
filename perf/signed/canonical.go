package signed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns the canonical form of a JSON document (RFC 8785, JCS):
// no white space, members sorted by their names' UTF-16 code units, strings and
// numbers as ECMAScript writes them. Input that is not I-JSON (RFC 7493) is
// refused: invalid UTF-8, lone surrogates, a member twice. So is a number that
// is no double, because canonicalisation would change it (invariant 2).
func Canonical(document []byte) ([]byte, error) {
	canonical, err := canonicalise(document)
	if err != nil {
		return nil, err
	}
	if err := checkNumbers(document); err != nil {
		return nil, err
	}
	return canonical, nil
}

// canonicalise is RFC 8785 to the letter: it rounds numbers.
func canonicalise(document []byte) ([]byte, error) {
	value := jsontext.Value(bytes.Clone(document))
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("it is no JSON that can be signed: %w", err)
	}
	return value, nil
}

// checkNumbers refuses a document whose numbers differ from those of its
// canonical form. Members may have moved, so each number of the document is
// canonicalised alone.
func checkNumbers(document []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(document))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is no JSON that can be signed: %w", err)
		}
		if token.Kind() != '0' {
			continue
		}
		given := token.String()
		number, err := canonicalise([]byte(given))
		if err != nil {
			return err
		}
		if decimalOf(given) != decimalOf(string(number)) {
			return fmt.Errorf("its number %s would be signed as %s, the shortest form of the nearest double: write it like that, or as a string", given, number)
		}
	}
}

// decimal is a number as 0.digits × 10^exponent, digits without zeros at
// either end: equal exactly when the numbers are. -0 is 0, as in RFC 8785.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// decimalOf reads a JSON number. Exponents beyond an int's range can't come
// from a number that has become a finite double other than zero; they saturate.
func decimalOf(number string) decimal {
	mantissa, exponentText, _ := strings.Cut(strings.ToLower(number), "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent := len(whole) + parseExponent(exponentText)
	digits := whole + fraction
	significant := strings.TrimLeft(digits, "0")
	exponent -= len(digits) - len(significant)
	significant = strings.TrimRight(significant, "0")
	if significant == "" {
		return decimal{}
	}
	return decimal{negative: negative, digits: significant, exponent: exponent}
}

func parseExponent(text string) (exponent int) {
	text, negative := strings.CutPrefix(strings.TrimPrefix(text, "+"), "-")
	for _, digit := range []byte(text) {
		exponent = min(exponent*10+int(digit-'0'), 1<<30)
	}
	if negative {
		return -exponent
	}
	return exponent
}
