package access

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// SASLprep (RFC 4013) for queries: code points that Unicode 3.2 did not have, emoji
// among them, stay as they are. Normalisation and directions are golang.org/x/text's;
// the rest are the few ranges below. A library that has all of stringprep makes maps
// of it when the process starts: 136 KB that nobody may ever need.

// preparedBytesMax bounds what is prepared: nobody has a longer password, and
// normalising takes time.
const preparedBytesMax = 1024

// Prepared is a password or a user's name as SASL mechanisms compare them (RFC
// 4616, 2; RFC 5802, 5.1): text that looks the same is the same. What SASLprep
// does not allow, or is no text, counts as it is. ASCII stays as it is: then the
// answer is text itself.
func Prepared(text []byte) []byte {
	if isASCII(text) || len(text) > preparedBytesMax || !utf8.Valid(text) {
		return text
	}
	mapped := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case within(r, mappedToSpace):
			mapped = append(mapped, ' ')
		case !within(r, mappedToNothing):
			mapped = utf8.AppendRune(mapped, r)
		}
	}
	out := norm.NFKC.Bytes(mapped)
	if len(out) == 0 || !allowed(string(out)) {
		return text
	}
	return out
}

func isASCII(text []byte) bool {
	for _, b := range text {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// runes are those from the first to the second.
type runes [2]rune

// within says whether a rune is in one of the ranges.
func within(r rune, ranges []runes) bool {
	for _, p := range ranges {
		if p[0] <= r && r <= p[1] {
			return true
		}
	}
	return false
}

// allowed says whether a text has nothing that is prohibited (RFC 4013, 2.3), and
// one direction of writing (RFC 3454, 6): if any of it goes from right to left, all
// letters do, the first and the last among them.
func allowed(text string) bool {
	var first, last direction
	left, right := false, false
	for i, r := range text {
		if within(r, prohibited) || r&0xfffe == 0xfffe {
			return false
		}
		last = directionOf(r)
		if i == 0 {
			first = last
		}
		left, right = left || last == leftToRight, right || last == rightToLeft
	}
	return !right || !left && first == rightToLeft && last == rightToLeft
}

type direction uint8

const (
	neither     direction = iota
	leftToRight           // LCat
	rightToLeft           // RandALCat
)

func directionOf(r rune) direction {
	p, _ := bidi.LookupRune(r)
	switch p.Class() {
	case bidi.L:
		return leftToRight
	case bidi.R, bidi.AL:
		return rightToLeft
	}
	return neither
}

// The tables of RFC 3454 that SASLprep names.
var (
	// mappedToSpace are other spaces (C.1.2).
	mappedToSpace = []runes{{0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200b}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}}
	// mappedToNothing are signs that are not seen (B.1).
	mappedToNothing = []runes{{0xad, 0xad}, {0x34f, 0x34f}, {0x1806, 0x1806}, {0x180b, 0x180d}, {0x200b, 0x200d}, {0x2060, 0x2060}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}}

	// prohibited is what a name or a password must not have after that.
	prohibited = []runes{
		{0x00, 0x1f}, {0x7f, 0x7f}, // C.2.1, control characters
		{0x80, 0x9f}, {0x6dd, 0x6dd}, {0x70f, 0x70f}, {0x180e, 0x180e}, {0x200c, 0x200d}, {0x2028, 0x2029}, {0x2060, 0x2063}, {0x206a, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffc}, {0x1d173, 0x1d17a}, // C.2.2, likewise
		{0xe000, 0xf8ff}, {0xf0000, 0xffffd}, {0x100000, 0x10fffd}, // C.3, private use
		{0xfdd0, 0xfdef},                                                     // C.4, no characters; with the last two of each plane
		{0xd800, 0xdfff},                                                     // C.5, surrogates
		{0xfff9, 0xfffd},                                                     // C.6, not for plain text
		{0x2ff0, 0x2ffb},                                                     // C.7, not for canonical representation
		{0x340, 0x341}, {0x200e, 0x200f}, {0x202a, 0x202e}, {0x206a, 0x206f}, // C.8, change display
		{0xe0001, 0xe0001}, {0xe0020, 0xe007f}, // C.9, tags
		{0x1680, 0x1680}, {0xa0, 0xa0}, {0x2000, 0x200b}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, // C.1.2
	}
)
