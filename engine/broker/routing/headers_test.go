package routing

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"pgregory.net/rapid"
)

func headersMatch(arguments, headers amqp.Table) bool {
	index := NewHeaders[int]()
	index.Bind(Binding[int]{Arguments: arguments, Destination: 1})
	return len(index.Route(nil, headers, nil)) == 1
}

func TestHeaders_Matching_3_1_3_4(t *testing.T) {
	t.Parallel()
	void := amqp.VoidValue()
	cases := []struct {
		name               string
		arguments, headers amqp.Table
		want               bool
	}{
		{"all is the default", table("a", 1, "b", 2), table("a", 1, "b", 2, "c", 3), true},
		{"all: one is missing", table("a", 1, "b", 2), table("a", 1), false},
		{"all: one differs", table("a", 1, "b", 2), table("a", 1, "b", 3), false},
		{"all: no headers", table("a", 1), nil, false},
		{"all without arguments, no headers", nil, nil, true},
		{"all without arguments, headers", nil, table("a", 1), true},
		{"all without relevant arguments", table("x-match", "all", "x-a", 1), table("b", 1), true},
		{"all: x- arguments are skipped", table("x-a", 1, "b", 2), table("x-a", 5, "b", 2), true},
		{"any: one of two", table("x-match", "any", "a", 1, "b", 2), table("b", 2), true},
		{"any: none", table("x-match", "any", "a", 1, "b", 2), table("a", 2, "b", 1), false},
		{"any without arguments", table("x-match", "any"), table("a", 1), false},
		{"any without arguments, no headers", table("x-match", "any"), nil, false},
		{"any: x- arguments are skipped", table("x-match", "any", "x-a", 1), table("x-a", 1), false},
		{"any-with-x", table("x-match", "any-with-x", "x-a", 1, "b", 2), table("x-a", 1), true},
		{"all-with-x", table("x-match", "all-with-x", "x-a", 1, "b", 2), table("x-a", 1, "b", 2), true},
		{"all-with-x: x- differs", table("x-match", "all-with-x", "x-a", 1, "b", 2), table("x-a", 2, "b", 2), false},
		{"all-with-x: x-match is not compared", table("x-match", "all-with-x", "b", 2), table("b", 2), true},
		{"any-with-x: x-match is not compared", table("x-match", "any-with-x"), table("x-match", "any-with-x"), false},
		{"void: present", table("a", void), table("a", "whatever"), true},
		{"void: present and void", table("a", void), table("a", void), true},
		{"void: absent", table("a", void), table("b", 1), false},
		{"any, void: present", table("x-match", "any", "a", void, "b", 1), table("a", 9), true},
		{"void header, valued argument", table("a", 1), table("a", void), false},
		{"integers of different width", table("a", amqp.Uint8Value(7)), table("a", amqp.Int64Value(7)), true},
		{"integer and float", table("a", amqp.Int32Value(7)), table("a", amqp.Float64Value(7)), true},
		{"zeros", table("a", amqp.Float64Value(math.Copysign(0, -1))), table("a", 0), true},
		{"large integers are not rounded", table("a", 1<<53+1), table("a", 1<<53), false},
		{"NaN", table("a", amqp.Float32Value(float32(math.NaN()))), table("a", amqp.Float64Value(math.NaN())), true},
		{"string and bytes", table("a", "x"), table("a", amqp.BytesValue([]byte("x"))), true},
		{"string and number", table("a", "1"), table("a", 1), false},
		{"bool and number", table("a", amqp.BoolValue(true)), table("a", 1), false},
		{"decimals", table("a", amqp.DecimalValue(1, 15)), table("a", amqp.DecimalValue(2, 150)), true},
		{"nested tables", table("a", amqp.TableValue(table("b", 1, "c", 2))), table("a", amqp.TableValue(table("c", 2, "b", 1))), true},
		{"nested tables differ", table("a", amqp.TableValue(table("b", 1))), table("a", amqp.TableValue(table("b", 2))), false},
		{"arrays", table("a", amqp.ArrayValue(amqp.ArrayOf(amqp.Int8Value(1)))), table("a", amqp.ArrayValue(amqp.ArrayOf(amqp.Int64Value(1)))), true},
		{"of repeated headers the first counts", table("a", 2), append(table("a", 1), table("a", 2)...), false},
		{"unknown x-match is all", table("x-match", "some", "a", 1), table("a", 1), true},
		{"names differ in case", table("a", 1), table("A", 1), false},
	}
	for _, c := range cases {
		if got := headersMatch(c.arguments, c.headers); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestHeaders_Validate_406(t *testing.T) {
	t.Parallel()
	for _, good := range []amqp.Table{nil, table("a", 1), table("x-match", "all"), table("x-match", "any"),
		table("x-match", "all-with-x"), table("x-match", "any-with-x")} {
		if err := ValidateHeadersArguments(good); err != nil {
			t.Errorf("%x: %v", []byte(good), err)
		}
	}
	for _, bad := range []amqp.Table{table("x-match", "some"), table("x-match", ""), table("x-match", "ALL"), table("x-match", 1),
		table("x-match", amqp.VoidValue()), table("x-match", amqp.BytesValue([]byte("all"))), table("x-match", strings.Repeat("x", 1000))} {
		var problem *amqp.Error
		if err := ValidateHeadersArguments(bad); !errors.As(err, &problem) || problem.Code != amqp.CodePreconditionFailed {
			t.Errorf("%x: %v, want 406", []byte(bad), err)
		}
	}
}

// Bindings that share all but one argument must not share a bucket.
func TestHeaders_SelectiveArgumentIsIndexed(t *testing.T) {
	t.Parallel()
	index := NewHeaders[int]().(*headersIndex[int])
	for i := range 200 {
		index.Bind(Binding[int]{Arguments: table("kind", "order", "present", amqp.VoidValue(), "customer", i), Destination: i})
	}
	for id := 1; id < index.buckets.capacity(); id++ {
		if entries := len(index.buckets.at(uint32(id)).entries); entries > 2 {
			t.Errorf("a bucket of %d patterns", entries)
		}
	}
}

// Equal argument tables share a pattern, however they are encoded.
func TestHeaders_EqualArgumentsShareAPattern(t *testing.T) {
	t.Parallel()
	index := NewHeaders[int]().(*headersIndex[int])
	index.Bind(Binding[int]{Arguments: table("a", 1, "b", "x"), Destination: 1})
	if index.Bind(Binding[int]{Arguments: table("b", "x", "a", amqp.Int8Value(1)), Destination: 1}) {
		t.Error("an equal binding was added")
	}
	if !index.Bind(Binding[int]{Arguments: table("b", "x", "a", amqp.Int8Value(1)), Destination: 2}) {
		t.Error("another destination was not added")
	}
	if index.patternIndex.count != 1 {
		t.Errorf("%d patterns", index.patternIndex.count)
	}
}

// Patterns and conditions with equal hashes are told apart by their content.
func TestHeaders_HashCollision(t *testing.T) {
	t.Parallel()
	index := NewHeaders[int]().(*headersIndex[int])
	for i, mode := range []string{"all", "any"} {
		index.Bind(Binding[int]{Arguments: table("x-match", mode, "a", 1), Destination: i})
	}
	for _, other := range []amqp.Table{table("a", 2), table("b", 1)} { // as if these hashed like a=1
		index.patternIndex.insert(mix(tableHash(other)), 1)
		index.Bind(Binding[int]{Arguments: other, Destination: 5})
		var fields fieldSet
		fields.parse(other)
		hash, _ := valueHash(fields.fields[0].value)
		b := index.buckets.at(index.findBucket(valueKey(fields.fields[0].nameHash, hash)))
		b.entries = append(b.entries, bucketEntry{1, 0}, bucketEntry{2, 0})
		if got := index.Route(nil, other, nil); len(got) != 1 || got[0] != 5 {
			t.Errorf("%x: %v", []byte(other), got)
		}
	}
}

// One message with very many headers is routed, and forgotten by the pool.
func TestHeaders_VeryManyHeaders(t *testing.T) {
	t.Parallel()
	var headers amqp.Table
	for i := range 5000 {
		headers = append(headers, table(fmt.Sprint("h", i), i)...)
	}
	if !headersMatch(table("h0", 0, "h4999", 4999, "h2500", amqp.VoidValue()), headers) {
		t.Error("no match")
	}
	var fields fieldSet
	fields.parse(headers)
	if len(fields.fields) != 5000 || fields.find(1, []byte("missing")) != nil {
		t.Errorf("%d fields", len(fields.fields))
	}
	fields.reset()
	if cap(fields.fields) > fieldsKeptMax || fields.index != nil {
		t.Errorf("kept %d fields", cap(fields.fields))
	}
}

func TestHeaders_ValueHashFollowsEqual(t *testing.T) {
	t.Parallel()
	generator := rapid.Custom(func(t *rapid.T) amqp.Value {
		number := rapid.OneOf(rapid.Int64Range(-2, 2), rapid.SampledFrom([]int64{1 << 53, 1<<53 + 1, math.MaxInt64, math.MinInt64, 127, 65535})).Draw(t, "number")
		text := fmt.Append(nil, number)
		return rapid.SampledFrom([]amqp.Value{
			amqp.Int8Value(int8(number)), amqp.Uint8Value(uint8(number)), amqp.Int16Value(int16(number)), amqp.Uint16Value(uint16(number)),
			amqp.Int32Value(int32(number)), amqp.Uint32Value(uint32(number)), amqp.Int64Value(number),
			amqp.Float32Value(float32(number)), amqp.Float64Value(float64(number)), amqp.Float64Value(math.NaN()),
			amqp.StringBytes(text), amqp.BytesValue(text), amqp.BoolValue(number > 0), amqp.VoidValue(),
			amqp.TimestampValue(uint64(number)), amqp.DecimalValue(1, int32(number)), amqp.DecimalValue(2, int32(number)*10),
		}).Draw(t, "value")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := generator.Draw(t, "a"), generator.Draw(t, "b")
		hashA, selectiveA := valueHash(a)
		hashB, selectiveB := valueHash(b)
		if amqp.Equal(a, b) && (hashA != hashB || selectiveA != selectiveB) {
			t.Fatalf("equal values hash differently: %+v, %+v", a, b)
		}
	})
}
