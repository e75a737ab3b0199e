package run

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
)

// Every kit is whole: its demo names what exists, its samples pass the gate
// that everybody's submissions pass, and no two kits stand in each other's way.
func TestKits(t *testing.T) {
	o := testOptions(t.TempDir())
	ids, nets, routes := map[string]bool{}, map[uint16]bool{}, map[string]bool{}
	ks := kinds(o, "")
	for _, k := range kits() {
		f := k.demo()
		if f.Kind != k.name || ks[k.name] == nil || ks[k.name].Name() != k.name {
			t.Errorf("%s: the demo is of kind %q", k.name, f.Kind)
		}
		if ids[f.ID] || nets[f.Netuid] || !arenaID.MatchString(f.ID) {
			t.Errorf("%s: id %q or netuid %d is taken", k.name, f.ID, f.Netuid)
		}
		ids[f.ID], nets[f.Netuid] = true, true
		if _, ok := incentives()[f.Incentive]; !ok {
			t.Errorf("%s: no incentive %q", k.name, f.Incentive)
		}
		for _, r := range k.routes {
			if routes[r] {
				t.Errorf("%s: route %s is taken", k.name, r)
			}
			routes[r] = true
		}
		for _, set := range append(append([]string(nil), f.Sets...), f.Hidden...) {
			if list, err := shippedSet(o, k.name, set); err != nil || len(list) == 0 {
				t.Errorf("%s: set %s: %d tasks, %v", k.name, set, len(list), err)
			}
		}
		a := f.Arena()
		for _, s := range k.samples {
			files, err := s.files(k.name)
			if err != nil {
				t.Errorf("%s: %v", k.name, err)
				continue
			}
			var list []blob.File
			for _, x := range files {
				list = append(list, blob.File{Path: x.Path, Content: x.Content})
			}
			found, err := ks[k.name].Check(t.Context(), &a, blob.FS(list))
			if err != nil {
				t.Errorf("%s: sample %s: %v", k.name, s.name, err)
			}
			for _, x := range found {
				if !x.Warning && !s.refused {
					t.Errorf("%s: sample %s: %+v", k.name, s.name, x)
				}
			}
		}
	}
	// What agon agent new writes passes the gate of its kind, too.
	list, err := fs.ReadDir(templates(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		k, ok := kitOf(d.Name())
		if !ok {
			t.Errorf("a template of no kind: %s", d.Name())
			continue
		}
		var files []blob.File
		err := fs.WalkDir(templates(), d.Name(), func(p string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := fs.ReadFile(templates(), p)
			files = append(files, blob.File{Path: client.EntryName(k.name, p), Content: b})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		a := k.demo().Arena()
		found, err := ks[k.name].Check(t.Context(), &a, blob.FS(files))
		if err != nil {
			t.Errorf("template %s: %v", d.Name(), err)
		}
		for _, x := range found {
			if !x.Warning {
				t.Errorf("template %s: %+v", d.Name(), x)
			}
		}
	}
	if _, err := demoScript(); err != nil {
		t.Error(err)
	}
	var e *agon.Error
	if _, err := shippedSet(o, "coding", "../coding"); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("a set outside: %v", err)
	}
}
