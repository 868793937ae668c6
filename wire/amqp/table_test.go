package amqp

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The naive model of a table: a list of fields; the first of a name counts.
func TestTable_AgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fields := drawFields(t, 3)
		table := encodeFields(fields)
		if err := ValidateTable(table); err != nil {
			t.Fatal(err)
		}
		if table.Len() != len(fields) {
			t.Fatalf("Len = %d, want %d", table.Len(), len(fields))
		}
		i := 0
		first := map[string]Value{}
		for name, v := range table.All() {
			if string(name) != fields[i].name || !bytes.Equal(v.Append(nil), fields[i].value.Append(nil)) {
				t.Fatalf("field %d is %q %v, want %q %v", i, name, v, fields[i].name, fields[i].value)
			}
			if _, repeated := first[string(name)]; !repeated {
				first[string(name)] = v
			}
			i++
		}
		if i != len(fields) {
			t.Fatalf("All stopped after %d of %d", i, len(fields))
		}
		for name, want := range first {
			if got, ok := table.Lookup(name); !ok || !bytes.Equal(got.Append(nil), want.Append(nil)) {
				t.Fatalf("Lookup(%q) = %v, %v; want %v", name, got, ok, want)
			}
		}
		if _, ok := table.Lookup("a name that is never drawn"); ok {
			t.Fatal("found a name that isn't there")
		}
	})
}

func TestTableBuilder_AgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b TableBuilder
		model := map[string]Value{}
		type snapshot struct{ table, clone Table }
		var snapshots []snapshot
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "longer name"}).Draw(t, "name")
			if rapid.IntRange(0, 3).Draw(t, "step") == 0 {
				b.Delete(name)
				delete(model, name)
			} else {
				v := drawValue(t, 1)
				b.SetValue(name, v)
				model[name] = v
			}
			snapshots = append(snapshots, snapshot{b.Table(), bytes.Clone(b.Table())})
		}
		table := b.Table()
		if err := ValidateTable(table); err != nil {
			t.Fatal(err)
		}
		if table.Len() != len(model) {
			t.Fatalf("Len = %d, want %d", table.Len(), len(model))
		}
		for name, want := range model {
			if got, ok := table.Lookup(name); !ok || !Equal(got, want) {
				t.Fatalf("%q is %v, want %v", name, got, want)
			}
		}
		for i, s := range snapshots {
			if !bytes.Equal(s.table, s.clone) {
				t.Fatalf("the table handed out after step %d changed later", i)
			}
		}
	})
}

func TestTableBuilder_Setters(t *testing.T) {
	t.Parallel()
	nested := builtTable(func(b *TableBuilder) { b.SetBool("yes", true) })
	b := NewTableBuilder(builtTable(func(b *TableBuilder) { b.SetString("base", "old") }))
	b.SetString("base", "new")
	b.SetBytes("bytes", []byte("raw"))
	b.SetInt32("i32", -5)
	b.SetInt64("i64", math.MinInt64)
	b.SetTable("nested", nested)
	b.SetString(strings.Repeat("n", 300), "cut")
	want := unhex(t, "04 'base' 'S' 00000003 'new' 05 'bytes' 'S' 00000003 'raw' 03 'i32' 'I' FFFFFFFB"+
		"03 'i64' 'l' 8000000000000000 06 'nested' 'F' 00000006 03 'yes' 't' 01 FF '"+strings.Repeat("n", 255)+"' 'S' 00000003 'cut'")
	if !bytes.Equal(b.Table(), want) {
		t.Errorf("got\n%x, want\n%x", b.Table(), want)
	}
	// A value that is a view of the builder's own table.
	v, _ := b.Table().Lookup("nested")
	b.SetValue("base", v)
	if got, ok := b.Table().Lookup("base"); !ok || !Equal(got, TableValue(nested)) {
		t.Errorf("base = %v", got)
	}
}

func TestValidateTable_Errors(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{
		"05", "05 'abc'", "01 'a'", "01 'a' 'I'", "01 'a' 'I' 000000", "01 'a' '?'", "01 'a' 00",
		"01 'a' 'S' 00000002 'x'", "01 'a' 'S' FFFFFFFF 'x'", "01 'a' 'x' 7FFFFFFF", "01 'a' 'A' 00000001 'I'",
		"01 'a' 'F' 00000002 01 'b'", "01 'a' 'A' 00000002 '?' 00", "01 'a' 'D' 00000000", "01 'a' 't' 01 00",
	} {
		raw := unhex(t, wire)
		wantCode(t, ValidateTable(raw), CodeFrameError)
		// A broken table made by hand ends early and never panics (invariant 4).
		table := Table(raw)
		for range table.All() {
			_ = table.Len()
		}
		table.Lookup("a")
		TableEqual(table, Table("\x01bV"))
	}
}

// deepTable nests n tables within the outermost one; arrays every second level when mixed.
func deepTable(n int, mixed bool) Table {
	table := Table{}
	for i := range n {
		var v Value
		if mixed && i%2 == 0 {
			v = ArrayValue(ArrayOf(TableValue(table)))
		} else {
			v = TableValue(table)
		}
		table = v.Append(appendShortstr(nil, "n"))
	}
	return table
}

func TestValidateTable_Depth(t *testing.T) {
	t.Parallel()
	if err := ValidateTable(deepTable(TableDepthMax-1, false)); err != nil {
		t.Error(err)
	}
	wantCode(t, ValidateTable(deepTable(TableDepthMax, false)), CodeFrameError)
	wantCode(t, ValidateTable(deepTable(20000, false)), CodeFrameError)
	wantCode(t, ValidateTable(deepTable(TableDepthMax, true)), CodeFrameError)
	array := Array{}
	for range TableDepthMax {
		array = ArrayOf(ArrayValue(array))
	}
	wantCode(t, ValidateTable(ArrayValue(array).Append([]byte{0})), CodeFrameError)
}

func TestEqual_Loose(t *testing.T) {
	t.Parallel()
	table := func(names string) Value {
		var b TableBuilder
		for _, name := range names {
			b.SetInt32(string(name), name)
		}
		return TableValue(b.Table())
	}
	for _, c := range []struct {
		a, b Value
		want bool
	}{
		{Int32Value(5), Int64Value(5), true},
		{Int8Value(-1), Int64Value(-1), true},
		{Uint8Value(255), Int8Value(-1), false},
		{Int16Value(7), Value{kind: KindInt16Alt, number: 7}, true},
		{Int32Value(5), Float64Value(5), true},
		{Int32Value(5), Float64Value(5.5), false},
		{Float32Value(0.5), Float64Value(0.5), true},
		{Float32Value(0.1), Float64Value(0.1), false},
		{Float64Value(math.NaN()), Float32Value(float32(math.NaN())), true},
		{Float64Value(math.NaN()), Int32Value(0), false},
		{Float64Value(math.Inf(1)), Int64Value(math.MaxInt64), false},
		{Float64Value(1 << 63), Int64Value(math.MaxInt64), false},
		{Float64Value(-1 << 63), Int64Value(math.MinInt64), true},
		{Int64Value(1<<53 + 1), Float64Value(1 << 53), false},
		{Float64Value(math.Copysign(0, -1)), Int32Value(0), true},
		{String("a"), BytesValue([]byte("a")), true},
		{String("a"), String("b"), false},
		{String("1"), Int32Value(1), false},
		{BoolValue(true), Int32Value(1), false},
		{BoolValue(true), BoolValue(true), true},
		{BoolValue(true), BoolValue(false), false},
		{TimestampValue(1), Int64Value(1), false},
		{TimestampValue(1), TimestampValue(1), true},
		{VoidValue(), Value{}, true},
		{VoidValue(), BoolValue(false), false},
		{DecimalValue(2, 150), DecimalValue(1, 15), true},
		{DecimalValue(0, 150), DecimalValue(1, 15), false},
		{DecimalValue(9, 0), DecimalValue(0, 0), true},
		{DecimalValue(0, 1), Int32Value(1), false},
		{table("abc"), table("cab"), true},
		{table("abc"), table("ab"), false},
		{table("ab"), table("abc"), false},
		{table("abc"), table("abd"), false},
		{ArrayValue(ArrayOf(Int32Value(1), String("x"))), ArrayValue(ArrayOf(Int64Value(1), BytesValue([]byte("x")))), true},
		{ArrayValue(ArrayOf(Int32Value(1), Int32Value(2))), ArrayValue(ArrayOf(Int32Value(2), Int32Value(1))), false},
		{ArrayValue(ArrayOf(Int32Value(1))), ArrayValue(ArrayOf(Int32Value(1), Int32Value(1))), false},
		{ArrayValue(nil), TableValue(nil), false},
	} {
		if Equal(c.a, c.b) != c.want || Equal(c.b, c.a) != c.want {
			t.Errorf("Equal(%c %v, %c %v) is not %v both ways", c.a.Kind(), c.a, c.b.Kind(), c.b, c.want)
		}
	}
}

// Repeated names: the first counts, in the small and in the large comparison.
func TestTableEqual_RepeatedNames(t *testing.T) {
	t.Parallel()
	for _, padding := range []int{0, 3 * smallTableFields} {
		var common []namedValue
		for i := range padding {
			common = append(common, namedValue{fmt.Sprint("padding", i), Int32Value(int32(i))})
		}
		twice := encodeFields(append(common, namedValue{"a", Int32Value(1)}, namedValue{"a", Int32Value(2)}))
		once := encodeFields(append([]namedValue{{"a", Int64Value(1)}}, common...))
		second := encodeFields(append([]namedValue{{"a", Int64Value(2)}}, common...))
		more := encodeFields(append([]namedValue{{"a", Int64Value(1)}, {"b", VoidValue()}}, common...))
		if !TableEqual(twice, once) || !TableEqual(once, twice) {
			t.Errorf("padding %d: first of repeated names should count", padding)
		}
		if TableEqual(twice, second) || TableEqual(second, twice) || TableEqual(twice, more) || TableEqual(more, twice) {
			t.Errorf("padding %d: different tables are equal", padding)
		}
	}
}

func TestTableEqual_AgainstMaps(t *testing.T) {
	t.Parallel()
	toMap := func(list []namedValue) map[string]Value {
		m := map[string]Value{}
		for _, field := range list {
			if _, repeated := m[field.name]; !repeated {
				m[field.name] = field.value
			}
		}
		return m
	}
	draw := func(t *rapid.T, label string) []namedValue {
		var list []namedValue
		for range rapid.SampledFrom([]int{0, 1, 2, 3, 4, smallTableFields, smallTableFields + 4}).Draw(t, label) {
			list = append(list, namedValue{
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"),
				Int32Value(rapid.Int32Range(0, 1).Draw(t, "value")),
			})
		}
		return list
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "fields of a"), draw(t, "fields of b")
		mapA, mapB := toMap(a), toMap(b)
		want := len(mapA) == len(mapB)
		for name, v := range mapA {
			other, ok := mapB[name]
			want = want && ok && Equal(v, other)
		}
		if got := TableEqual(encodeFields(a), encodeFields(b)); got != want {
			t.Fatalf("TableEqual = %v, want %v", got, want)
		}
	})
}

// Deep and wide hostile tables are compared in reasonable time: exponential or
// quadratic work would not end within the test's time limit.
func TestTableEqual_Hostile(t *testing.T) {
	t.Parallel()
	tail := func(v int32) []namedValue { return []namedValue{{"z", Int32Value(v)}} }
	deepA, deepB := encodeFields(tail(1)), encodeFields(tail(2))
	for range TableDepthMax - 1 {
		deepA = encodeFields([]namedValue{{"n", TableValue(deepA)}, {"m", VoidValue()}})
		deepB = encodeFields([]namedValue{{"m", VoidValue()}, {"n", TableValue(deepB)}})
	}
	if TableEqual(deepA, deepB) {
		t.Error("deep tables that differ are equal")
	}
	forward, backward := Table{}, Table{}
	for i := range 40000 {
		forward = VoidValue().Append(appendShortstr(forward, fmt.Sprint(i)))
		backward = VoidValue().Append(appendShortstr(backward, fmt.Sprint(39999-i)))
	}
	if !TableEqual(forward, backward) {
		t.Error("wide tables that are equal differ")
	}
}

func TestValue_AccessorsRefuseOtherKinds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := drawValue(t, 1)
		_, isBool := v.Bool()
		_, isInt := v.Int64()
		_, isFloat := v.Float64()
		_, isBytes := v.Bytes()
		_, isTable := v.Table()
		_, isArray := v.Array()
		_, _, isDecimal := v.Decimal()
		_, isTimestamp := v.Timestamp()
		accepted := 0
		for _, ok := range []bool{isBool, isInt, isFloat, isBytes, isTable, isArray, isDecimal, isTimestamp, v.Kind() == KindVoid} {
			accepted += int(bit(ok, 0))
		}
		if accepted != 1 {
			t.Fatalf("%c is accepted by %d accessors", v.Kind(), accepted)
		}
		if !Equal(v, v) {
			t.Fatalf("%c is not equal to itself", v.Kind())
		}
	})
	if n, ok := Uint32Value(math.MaxUint32).Int64(); !ok || n != math.MaxUint32 {
		t.Error("uint32 is not zero-extended")
	}
}

func TestArray_AgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var want []Value
		for range rapid.IntRange(0, 6).Draw(t, "length") {
			want = append(want, drawValue(t, 2))
		}
		array := ArrayOf(want...)
		i := 0
		for v := range array.All() {
			if !bytes.Equal(v.Append(nil), want[i].Append(nil)) {
				t.Fatalf("value %d is %v, want %v", i, v, want[i])
			}
			i++
		}
		if i != len(want) || array.Len() != len(want) {
			t.Fatalf("All gives %d, Len %d, want %d", i, array.Len(), len(want))
		}
		for cut := range len(array) { // broken by hand: ends early
			for range array[:cut].All() {
				i--
			}
		}
	})
}

func TestTable_AppendWithout(t *testing.T) {
	t.Parallel()
	var b, without TableBuilder
	for _, name := range []string{"a", "name", "b"} {
		b.SetString(name, "value of "+name)
		if name != "name" {
			without.SetString(name, "value of "+name)
		}
	}
	broken := append(append(Table(nil), b.Table()...), "\x01cS\x00\x00\x01\x00too short"...)
	for what, table := range map[string]Table{"whole": b.Table(), "with a broken end": broken} {
		if got := table.AppendWithout([]byte("before:"), "name"); string(got) != "before:"+string(without.Table()) {
			t.Errorf("%s: %q", what, got)
		}
	}
}
