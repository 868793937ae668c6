package gen

// Type is the wire type of one method field.
type Type int

// The wire types of AMQP 0-9-1 method fields and how they are encoded.
const (
	Bit        Type = iota // packed with its neighbours, lowest bit first, up to eight in an octet
	Octet                  // 1 byte
	Short                  // 2 bytes, big-endian
	Long                   // 4 bytes, big-endian
	Longlong               // 8 bytes, big-endian
	Shortstr               // 1 length byte, then up to 255 bytes
	Longstr                // 4 length bytes, then the bytes
	Timestamp              // 8 bytes, seconds since 1970
	FieldTable             // 4 length bytes, then name/value pairs
)

// Field is one argument of a method. An empty Name marks a reserved field:
// skipped when decoding, zero when encoding.
type Field struct {
	Name string
	Type Type
}

// Method is one method of a class.
type Method struct {
	Name    string
	ID      uint16
	Content bool // a content header and body follow the method
	Fields  []Field
}

// Class is one class of methods.
type Class struct {
	Name    string
	ID      uint16
	Doc     string
	Methods []Method
}

func bit(name string) Field      { return Field{name, Bit} }
func octet(name string) Field    { return Field{name, Octet} }
func short(name string) Field    { return Field{name, Short} }
func long(name string) Field     { return Field{name, Long} }
func longlong(name string) Field { return Field{name, Longlong} }
func shortstr(name string) Field { return Field{name, Shortstr} }
func longstr(name string) Field  { return Field{name, Longstr} }
func table(name string) Field    { return Field{name, FieldTable} }

// reserved is a field that carries nothing any more.
func reserved(t Type) Field { return Field{"", t} }

func fields(list ...Field) []Field { return list }

func tune() []Field {
	return fields(short("channel-max"), long("frame-max"), short("heartbeat"))
}

func closing() []Field {
	return fields(short("reply-code"), shortstr("reply-text"), short("class-id"), short("method-id"))
}

func exchangeBinding() []Field {
	return fields(reserved(Short), shortstr("destination"), shortstr("source"), shortstr("routing-key"),
		bit("no-wait"), table("arguments"))
}

// Classes is the whole protocol: the classes of AMQP 0-9-1, the class
// "access" of 0-8 that old clients still send, and the extensions every
// current client knows (confirm, basic.nack, exchange.bind/unbind,
// connection.blocked/unblocked, connection.update-secret).
var Classes = []Class{
	{"connection", 10, "the connection itself: handshake, tuning, closing", []Method{
		{"start", 10, false, fields(octet("version-major"), octet("version-minor"),
			table("server-properties"), longstr("mechanisms"), longstr("locales"))},
		{"start-ok", 11, false, fields(table("client-properties"), shortstr("mechanism"),
			longstr("response"), shortstr("locale"))},
		{"secure", 20, false, fields(longstr("challenge"))},
		{"secure-ok", 21, false, fields(longstr("response"))},
		{"tune", 30, false, tune()},
		{"tune-ok", 31, false, tune()},
		{"open", 40, false, fields(shortstr("virtual-host"), reserved(Shortstr), reserved(Bit))},
		{"open-ok", 41, false, fields(shortstr("known-hosts"))},
		{"close", 50, false, closing()},
		{"close-ok", 51, false, nil},
		{"blocked", 60, false, fields(shortstr("reason"))},
		{"unblocked", 61, false, nil},
		{"update-secret", 70, false, fields(longstr("new-secret"), shortstr("reason"))},
		{"update-secret-ok", 71, false, nil},
	}},
	{"channel", 20, "one conversation within a connection", []Method{
		{"open", 10, false, fields(reserved(Shortstr))},
		{"open-ok", 11, false, fields(reserved(Longstr))},
		{"flow", 20, false, fields(bit("active"))},
		{"flow-ok", 21, false, fields(bit("active"))},
		{"close", 40, false, closing()},
		{"close-ok", 41, false, nil},
	}},
	{"access", 30, "access tickets of AMQP 0-8, answered for old clients only", []Method{
		{"request", 10, false, fields(shortstr("realm"), bit("exclusive"), bit("passive"),
			bit("active"), bit("write"), bit("read"))},
		{"request-ok", 11, false, fields(short("ticket"))},
	}},
	{"exchange", 40, "exchanges and bindings between them", []Method{
		{"declare", 10, false, fields(reserved(Short), shortstr("exchange"), shortstr("type"),
			bit("passive"), bit("durable"), bit("auto-delete"), bit("internal"), bit("no-wait"),
			table("arguments"))},
		{"declare-ok", 11, false, nil},
		{"delete", 20, false, fields(reserved(Short), shortstr("exchange"), bit("if-unused"), bit("no-wait"))},
		{"delete-ok", 21, false, nil},
		{"bind", 30, false, exchangeBinding()},
		{"bind-ok", 31, false, nil},
		{"unbind", 40, false, exchangeBinding()},
		{"unbind-ok", 51, false, nil}, // 51, not 41: so in the extension's definition
	}},
	{"queue", 50, "queues and their bindings", []Method{
		{"declare", 10, false, fields(reserved(Short), shortstr("queue"), bit("passive"), bit("durable"),
			bit("exclusive"), bit("auto-delete"), bit("no-wait"), table("arguments"))},
		{"declare-ok", 11, false, fields(shortstr("queue"), long("message-count"), long("consumer-count"))},
		{"bind", 20, false, fields(reserved(Short), shortstr("queue"), shortstr("exchange"),
			shortstr("routing-key"), bit("no-wait"), table("arguments"))},
		{"bind-ok", 21, false, nil},
		{"purge", 30, false, fields(reserved(Short), shortstr("queue"), bit("no-wait"))},
		{"purge-ok", 31, false, fields(long("message-count"))},
		{"delete", 40, false, fields(reserved(Short), shortstr("queue"), bit("if-unused"),
			bit("if-empty"), bit("no-wait"))},
		{"delete-ok", 41, false, fields(long("message-count"))},
		{"unbind", 50, false, fields(reserved(Short), shortstr("queue"), shortstr("exchange"),
			shortstr("routing-key"), table("arguments"))}, // the only binding method without no-wait
		{"unbind-ok", 51, false, nil},
	}},
	{"basic", 60, "publishing, consuming, settling", []Method{
		{"qos", 10, false, fields(long("prefetch-size"), short("prefetch-count"), bit("global"))},
		{"qos-ok", 11, false, nil},
		{"consume", 20, false, fields(reserved(Short), shortstr("queue"), shortstr("consumer-tag"),
			bit("no-local"), bit("no-ack"), bit("exclusive"), bit("no-wait"), table("arguments"))},
		{"consume-ok", 21, false, fields(shortstr("consumer-tag"))},
		{"cancel", 30, false, fields(shortstr("consumer-tag"), bit("no-wait"))},
		{"cancel-ok", 31, false, fields(shortstr("consumer-tag"))},
		{"publish", 40, true, fields(reserved(Short), shortstr("exchange"), shortstr("routing-key"),
			bit("mandatory"), bit("immediate"))},
		{"return", 50, true, fields(short("reply-code"), shortstr("reply-text"), shortstr("exchange"),
			shortstr("routing-key"))},
		{"deliver", 60, true, fields(shortstr("consumer-tag"), longlong("delivery-tag"), bit("redelivered"),
			shortstr("exchange"), shortstr("routing-key"))},
		{"get", 70, false, fields(reserved(Short), shortstr("queue"), bit("no-ack"))},
		{"get-ok", 71, true, fields(longlong("delivery-tag"), bit("redelivered"), shortstr("exchange"),
			shortstr("routing-key"), long("message-count"))},
		{"get-empty", 72, false, fields(reserved(Shortstr))},
		{"ack", 80, false, fields(longlong("delivery-tag"), bit("multiple"))},
		{"reject", 90, false, fields(longlong("delivery-tag"), bit("requeue"))},
		{"recover-async", 100, false, fields(bit("requeue"))},
		{"recover", 110, false, fields(bit("requeue"))},
		{"recover-ok", 111, false, nil},
		{"nack", 120, false, fields(longlong("delivery-tag"), bit("multiple"), bit("requeue"))},
	}},
	{"confirm", 85, "publisher confirms", []Method{
		{"select", 10, false, fields(bit("no-wait"))},
		{"select-ok", 11, false, nil},
	}},
	{"tx", 90, "transactions of a channel", []Method{
		{"select", 10, false, nil},
		{"select-ok", 11, false, nil},
		{"commit", 20, false, nil},
		{"commit-ok", 21, false, nil},
		{"rollback", 30, false, nil},
		{"rollback-ok", 31, false, nil},
	}},
}
