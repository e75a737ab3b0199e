package roles

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
)

// Every kit is whole: its demo names what exists, its samples pass the gate
// that everybody's submissions pass, and no two kits stand in each other's way.
func TestKits(t *testing.T) {
	o := testOptions(t.TempDir())
	ids, nets, routes := map[string]bool{}, map[uint16]bool{}, map[string]bool{}
	ks := o.Kinds("")
	for _, k := range kinds.All() {
		f := k.Demo()
		if f.Kind != k.Kind || ks[k.Kind] == nil || ks[k.Kind].Name() != k.Kind {
			t.Errorf("%s: the demo is of kind %q", k.Kind, f.Kind)
		}
		if ids[f.ID] || nets[f.Netuid] || !kit.ArenaID.MatchString(f.ID) {
			t.Errorf("%s: id %q or netuid %d is taken", k.Kind, f.ID, f.Netuid)
		}
		ids[f.ID], nets[f.Netuid] = true, true
		if _, ok := kinds.All().Incentives()[f.Incentive]; !ok {
			t.Errorf("%s: no incentive %q", k.Kind, f.Incentive)
		}
		for _, r := range k.Routes {
			if routes[r] {
				t.Errorf("%s: route %s is taken", k.Kind, r)
			}
			routes[r] = true
		}
		for _, set := range append(append([]string(nil), f.Sets...), f.Hidden...) {
			if list, err := o.ShippedSet(k.Kind, set); err != nil || len(list) == 0 {
				t.Errorf("%s: set %s: %d tasks, %v", k.Kind, set, len(list), err)
			}
		}
		a := f.Arena()
		for _, s := range k.Samples {
			files, err := k.Files(s.Name)
			if err != nil {
				t.Errorf("%s: %v", k.Kind, err)
				continue
			}
			var list []blob.File
			for _, x := range files {
				list = append(list, blob.File{Path: x.Path, Content: x.Content})
			}
			found, err := ks[k.Kind].Check(t.Context(), &a, blob.FS(list))
			if err != nil {
				t.Errorf("%s: sample %s: %v", k.Kind, s.Name, err)
			}
			for _, x := range found {
				if !x.Warning && !s.Refused {
					t.Errorf("%s: sample %s: %+v", k.Kind, s.Name, x)
				}
			}
		}
	}
	// What agon agent new writes passes the gate of its kind, too.
	for name, template := range kinds.All().Templates() {
		k, _ := kinds.All().Of(name)
		var files []blob.File
		err := fs.WalkDir(template, ".", func(p string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := fs.ReadFile(template, p)
			files = append(files, blob.File{Path: k.Entry(p), Content: b})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		a := k.Demo().Arena()
		found, err := ks[k.Kind].Check(t.Context(), &a, blob.FS(files))
		if err != nil {
			t.Errorf("template %s: %v", name, err)
		}
		for _, x := range found {
			if !x.Warning {
				t.Errorf("template %s: %+v", name, x)
			}
		}
	}
	if _, err := kinds.All().Script(); err != nil {
		t.Error(err)
	}
	var e *agon.Error
	if _, err := o.ShippedSet("coding", "../coding"); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("a set outside: %v", err)
	}
}
