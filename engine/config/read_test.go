package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestEveryKeyIsRead: each field of the Config is used where the broker is put
// together; a key that nothing reads would be a promise that nobody keeps.
func TestEveryKeyIsRead(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../cmd/basaltmq/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var source strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(data)
	}
	var look func(typ reflect.Type, prefix string)
	look = func(typ reflect.Type, prefix string) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == typ.PkgPath() {
				look(f.Type, f.Name+".")
				continue
			}
			// "c.AMQP.Port", or "t.Cert" where a section is passed on as a whole.
			pattern := `\b[a-z]+\.(` + regexp.QuoteMeta(prefix) + `)?` + f.Name + `\b`
			if !regexp.MustCompile(pattern).MatchString(source.String()) {
				t.Errorf("nothing in cmd/basaltmq reads %s%s", prefix, f.Name)
			}
		}
	}
	look(reflect.TypeOf(Config{}), "")
}
