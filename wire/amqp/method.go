package amqp

import "encoding/binary"

// Method is one AMQP method with its arguments. The types are generated:
// strings are views into the decoded bytes, reserved fields don't appear.
type Method interface {
	// ID is class id << 16 | method id.
	ID() uint32
	// Decode reads the arguments (what SplitMethod returns). All of args must
	// be used up. Errors are 501 with the method's id; the fields are then
	// partly filled and worthless.
	Decode(args []byte) error
	// AppendArgs appends the encoded arguments. Short strings beyond
	// ShortStringMax bytes are cut: callers bound them.
	AppendArgs(dst []byte) []byte
}

// SplitMethod separates the payload of a method frame into id and arguments.
// It doesn't tell whether the method exists. Error 501: fewer than 4 bytes.
func SplitMethod(payload []byte) (id uint32, args []byte, err error) {
	if len(payload) < methodHeaderSize {
		return 0, nil, methodTooShort()
	}
	return binary.BigEndian.Uint32(payload), payload[methodHeaderSize:], nil
}

func methodTooShort() error {
	return Errorf(CodeFrameError, 0, "method frame is too short for class and method id")
}

// What can be wrong with encoded values; the texts go into 501 errors.
const (
	problemTruncated = "truncated"
	problemTrailing  = "bytes left over at the end"
	problemKind      = "unknown field value kind"
	problemDepth     = "tables nested too deep"
	problemFlags     = "undefined property flags"
)

// argumentReader reads the arguments of one method in order. The first problem
// sticks and empties rest; later reads then give zeros, so that generated code
// checks once, in finish.
type argumentReader struct {
	rest    []byte
	problem string // empty while all is well
}

func (r *argumentReader) fail(problem string) {
	if r.problem == "" {
		r.problem = problem
	}
	r.rest = nil
}

func (r *argumentReader) octet() uint8 {
	if len(r.rest) < 1 {
		r.fail(problemTruncated)
		return 0
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v
}

func (r *argumentReader) short() uint16 {
	if len(r.rest) < 2 {
		r.fail(problemTruncated)
		return 0
	}
	v := binary.BigEndian.Uint16(r.rest)
	r.rest = r.rest[2:]
	return v
}

func (r *argumentReader) long() uint32 {
	if len(r.rest) < 4 {
		r.fail(problemTruncated)
		return 0
	}
	v := binary.BigEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	return v
}

func (r *argumentReader) longlong() uint64 {
	if len(r.rest) < 8 {
		r.fail(problemTruncated)
		return 0
	}
	v := binary.BigEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return v
}

func (r *argumentReader) shortstr() []byte {
	if len(r.rest) == 0 || len(r.rest) <= int(r.rest[0]) {
		r.fail(problemTruncated)
		return nil
	}
	end := 1 + int(r.rest[0])
	v := r.rest[1:end:end]
	r.rest = r.rest[end:]
	return v
}

func (r *argumentReader) longstr() []byte {
	v, rest, ok := cutLongstr(r.rest)
	if !ok {
		r.fail(problemTruncated)
		return nil
	}
	r.rest = rest
	return v
}

func (r *argumentReader) table() Table {
	v := r.longstr()
	if len(v) != 0 {
		if problem := validateTable(v, 1); problem != "" {
			r.fail(problem)
			return nil
		}
	}
	return Table(v)
}

// end gives the verdict when everything should have been read.
func (r *argumentReader) end() (problem string) {
	if r.problem == "" && len(r.rest) != 0 {
		return problemTrailing
	}
	return r.problem
}

// finish is end as an error: nil, or a 501 naming the method.
func (r *argumentReader) finish(methodID uint32) error {
	if r.problem == "" && len(r.rest) == 0 {
		return nil
	}
	return Errorf(CodeFrameError, methodID, "arguments of %s: %s", MethodName(methodID), r.end())
}

// decodeNothing is Decode of the methods without arguments.
func decodeNothing(args []byte, methodID uint32) error {
	r := argumentReader{rest: args}
	return r.finish(methodID)
}

// cutLongstr splits a string with a 4-byte length off buf.
func cutLongstr(buf []byte) (v, rest []byte, ok bool) {
	if len(buf) < 4 {
		return nil, nil, false
	}
	size := binary.BigEndian.Uint32(buf)
	if uint64(size) > uint64(len(buf)-4) {
		return nil, nil, false
	}
	end := 4 + int(size)
	return buf[4:end:end], buf[end:], true
}

func appendShortstr[T ~string | ~[]byte](dst []byte, v T) []byte {
	size := min(len(v), ShortStringMax)
	dst = append(dst, byte(size))
	return append(dst, v[:size]...)
}

func appendLongstr[T ~string | ~[]byte](dst []byte, v T) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	return append(dst, v...)
}

// bit is 1<<position when set.
func bit(set bool, position uint) byte {
	if set {
		return 1 << position
	}
	return 0
}
