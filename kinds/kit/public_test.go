package kit_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/kit"
)

const module = "github.com/agon-arena/agon"

// A kind in another module can name every type that Kit, Kind and Env lead to:
// none of them lies under internal/.
func TestNoTypeIsInternal(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(typ reflect.Type, way string)
	walk = func(typ reflect.Type, way string) {
		pkg := typ.PkgPath()
		if seen[typ] || (pkg != "" && pkg != module && !strings.HasPrefix(pkg, module+"/")) {
			return
		}
		seen[typ] = true
		if typ.Name() != "" {
			way += " > " + typ.String()
		}
		if strings.Contains(pkg+"/", "/internal/") {
			t.Errorf("%s is internal: %s", typ, way)
			return
		}
		for i := range typ.NumMethod() {
			walk(typ.Method(i).Type, way+"."+typ.Method(i).Name)
		}
		switch typ.Kind() {
		case reflect.Struct:
			for i := range typ.NumField() {
				if f := typ.Field(i); f.IsExported() {
					walk(f.Type, way+"."+f.Name)
				}
			}
		case reflect.Func:
			for i := range typ.NumIn() {
				walk(typ.In(i), way)
			}
			for i := range typ.NumOut() {
				walk(typ.Out(i), way)
			}
		case reflect.Map:
			walk(typ.Key(), way)
			walk(typ.Elem(), way)
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
			walk(typ.Elem(), way)
		}
		if typ.Kind() != reflect.Interface && typ.Kind() != reflect.Pointer && typ.Name() != "" {
			walk(reflect.PointerTo(typ), way) // its methods
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[kit.Kit](), reflect.TypeFor[kind.Kind](), reflect.TypeFor[kind.Env]()} {
		walk(typ, "")
	}
	if len(seen) < 100 {
		t.Errorf("only %d types were seen", len(seen))
	}
	t.Logf("%d types", len(seen))
}
