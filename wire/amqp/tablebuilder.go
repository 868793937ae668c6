package amqp

// TableBuilder encodes a table field by field. Setting a name again replaces
// its value (in the old place); names beyond ShortStringMax bytes are cut. The
// zero TableBuilder is an empty table. Every Set walks the fields before it:
// it is made for arguments and headers, not for thousands of fields.
type TableBuilder struct {
	buf Table
}

// NewTableBuilder starts from a copy of base.
func NewTableBuilder(base Table) *TableBuilder {
	return &TableBuilder{buf: append(Table(nil), base...)}
}

// SetString sets a long string (S).
func (b *TableBuilder) SetString(name, val string) { b.SetValue(name, String(val)) }

// SetBytes sets a long string (S) from bytes, which are copied.
func (b *TableBuilder) SetBytes(name string, val []byte) { b.SetValue(name, StringBytes(val)) }

// SetBool sets a boolean (t).
func (b *TableBuilder) SetBool(name string, val bool) { b.SetValue(name, BoolValue(val)) }

// SetInt32 sets an int32 (I).
func (b *TableBuilder) SetInt32(name string, val int32) { b.SetValue(name, Int32Value(val)) }

// SetInt64 sets an int64 (l).
func (b *TableBuilder) SetInt64(name string, val int64) { b.SetValue(name, Int64Value(val)) }

// SetTable sets a nested table (F), which is copied.
func (b *TableBuilder) SetTable(name string, val Table) { b.SetValue(name, TableValue(val)) }

// SetValue sets any value; its bytes are copied.
func (b *TableBuilder) SetValue(name string, val Value) {
	name = name[:min(len(name), ShortStringMax)]
	pos, end := b.find(name)
	if pos == end {
		b.buf = val.Append(appendShortstr(b.buf, name))
		return
	}
	// A new buffer: tables handed out earlier must not change, nor val when it is a view of one.
	replaced := append(make(Table, 0, len(b.buf)+len(val.view)+16), b.buf[:pos]...)
	replaced = val.Append(appendShortstr(replaced, name))
	b.buf = append(replaced, b.buf[end:]...)
}

// Delete removes the first field called name, if there is one.
func (b *TableBuilder) Delete(name string) {
	pos, end := b.find(name)
	if pos == end {
		return
	}
	shortened := append(make(Table, 0, len(b.buf)), b.buf[:pos]...)
	b.buf = append(shortened, b.buf[end:]...)
}

// Table returns what was set so far. Later sets don't change it.
func (b *TableBuilder) Table() Table { return b.buf[:len(b.buf):len(b.buf)] }

// find returns where the field called name starts and ends; equal when there is none.
func (b *TableBuilder) find(name string) (pos, end int) {
	pos = lookupPosition(b.buf, name)
	if pos < 0 {
		return 0, 0
	}
	_, _, rest, _ := cutField(b.buf[pos:])
	return pos, len(b.buf) - len(rest)
}
