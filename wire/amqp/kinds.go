package amqp

// Kinds of field values: the tag byte before the value. They follow what
// RabbitMQ and its clients send, which differs from the text of the
// specification ('s' is an int16 and not a short string; 'l' and 'L' are both signed).
const (
	KindBool      = 't' // 1 byte, 0 is false
	KindInt8      = 'b' // 1 byte
	KindUint8     = 'B' // 1 byte
	KindInt16     = 's' // 2 bytes
	KindInt16Alt  = 'U' // 2 bytes, the specification's tag for int16
	KindUint16    = 'u' // 2 bytes
	KindInt32     = 'I' // 4 bytes
	KindUint32    = 'i' // 4 bytes
	KindInt64     = 'l' // 8 bytes
	KindInt64Alt  = 'L' // 8 bytes, signed all the same
	KindFloat32   = 'f' // 4 bytes, IEEE 754
	KindFloat64   = 'd' // 8 bytes, IEEE 754
	KindDecimal   = 'D' // 1 byte scale, 4 bytes signed integer: value = integer / 10^scale
	KindString    = 'S' // 4 bytes length, bytes of any encoding
	KindBytes     = 'x' // 4 bytes length, bytes
	KindArray     = 'A' // 4 bytes length, kind and value repeated
	KindTimestamp = 'T' // 8 bytes, seconds since 1970
	KindTable     = 'F' // 4 bytes length, name, kind and value repeated
	KindVoid      = 'V' // nothing
)

// How many bytes follow the kind byte, where the kind alone doesn't tell.
const (
	sizeUnknown  = -1 // no such kind
	sizePrefixed = -2 // a 4-byte length, then that many bytes
)

// kindSizes gives the bytes that follow each kind byte.
var kindSizes = buildKindSizes()

func buildKindSizes() (sizes [256]int8) {
	for i := range sizes {
		sizes[i] = sizeUnknown
	}
	for size, kinds := range map[int8]string{
		0: "V", 1: "tbB", 2: "sUu", 4: "Iif", 5: "D", 8: "lLdT", sizePrefixed: "SxAF",
	} {
		for i := range kinds {
			sizes[kinds[i]] = size
		}
	}
	return sizes
}

// valueSize returns the encoded size of the value at the start of buf, kind
// byte included; a non-empty problem when there is no whole value.
func valueSize(buf []byte) (size int, problem string) {
	if len(buf) == 0 {
		return 0, problemTruncated
	}
	fixed := int(kindSizes[buf[0]])
	if fixed == sizeUnknown {
		return 0, problemKind
	}
	if fixed == sizePrefixed {
		v, _, ok := cutLongstr(buf[1:])
		if !ok {
			return 0, problemTruncated
		}
		return 5 + len(v), ""
	}
	if len(buf) < 1+fixed {
		return 0, problemTruncated
	}
	return 1 + fixed, ""
}

// ValidateTable checks the content of a field table (without its 4-byte
// length): whole names and values, known kinds, at most TableDepthMax levels.
// It doesn't look for repeated names: the first one counts. Error 501.
func ValidateTable(raw []byte) error {
	if problem := validateTable(raw, 1); problem != "" {
		return Errorf(CodeFrameError, 0, "field table: %s", problem)
	}
	return nil
}

func validateTable(raw []byte, depth int) (problem string) {
	if depth > TableDepthMax {
		return problemDepth
	}
	for len(raw) > 0 {
		nameEnd := 1 + int(raw[0])
		if nameEnd > len(raw) {
			return problemTruncated
		}
		raw = raw[nameEnd:]
		size, problem := validateValue(raw, depth)
		if problem != "" {
			return problem
		}
		raw = raw[size:]
	}
	return ""
}

func validateArray(raw []byte, depth int) (problem string) {
	if depth > TableDepthMax {
		return problemDepth
	}
	for len(raw) > 0 {
		size, problem := validateValue(raw, depth)
		if problem != "" {
			return problem
		}
		raw = raw[size:]
	}
	return ""
}

// validateValue checks the value at the start of raw; what it holds lies one level deeper.
func validateValue(raw []byte, depth int) (size int, problem string) {
	size, problem = valueSize(raw)
	if problem != "" {
		return 0, problem
	}
	switch raw[0] {
	case KindTable:
		problem = validateTable(raw[5:size], depth+1)
	case KindArray:
		problem = validateArray(raw[5:size], depth+1)
	}
	return size, problem
}

// KindName is what RabbitMQ calls a kind of value in its errors.
func KindName(kind byte) string {
	switch kind {
	case 'S':
		return "longstr"
	case 't':
		return "bool"
	case 'x':
		return "binary"
	case 'b':
		return "byte"
	case 'B':
		return "unsignedbyte"
	case 's', 'U':
		return "short"
	case 'u':
		return "unsignedshort"
	case 'I':
		return "signedint"
	case 'i':
		return "unsignedint"
	case 'l', 'L':
		return "long"
	case 'f':
		return "float"
	case 'd':
		return "double"
	case 'T':
		return "timestamp"
	case 'F':
		return "table"
	case 'A':
		return "array"
	case 'D':
		return "decimal"
	case 'V':
		return "void"
	}
	return string(kind)
}
