package storetest

import (
	"slices"
	"testing"

	"github.com/agon-arena/agon/engine/store"
)

// documents: each is its place's and its name's, a later one takes the place of an earlier,
// and names are found by how they begin, in the order of their bytes.
func documents(t *testing.T, s *suite) {
	s.write(func(tx *store.Tx) error {
		for _, n := range []string{"run-b", "run-a", "run-", "run-a.1", "runs", "run", "sun-a"} {
			if err := tx.PutDocument("here", n, []byte(`{"n":"`+n+`"}`)); err != nil {
				return err
			}
		}
		return tx.PutDocument("there", "run-c", []byte(`"\u0000"`))
	})
	s.write(func(tx *store.Tx) error { return tx.PutDocument("here", "run-b", []byte(`2`)) })
	s.write(func(tx *store.Tx) error { return tx.DropDocument("here", "sun-a") })
	s.write(func(tx *store.Tx) error { return tx.DropDocument("here", "sun-a") })
	s.read(func(tx *store.Tx) error {
		for _, x := range []struct{ place, name, want string }{
			{"here", "run-b", "2"}, {"here", "run-a", `{"n":"run-a"}`}, {"here", "sun-a", ""}, {"there", "run-b", ""}, {"there", "run-c", `"\u0000"`},
		} {
			if b, err := tx.Document(x.place, x.name); err != nil || string(b) != x.want {
				t.Errorf("%s %s: %q, %v", x.place, x.name, b, err)
			}
		}
		list, err := tx.Documents("here", "run-")
		if want := []string{"run-a", "run-a.1", "run-b"}; !slices.Equal(list, want) {
			t.Errorf("names %v, want %v", list, want)
		}
		if err != nil {
			return err
		}
		values, err := tx.DocumentValues("here", "run-")
		var got []string
		for _, d := range values {
			got = append(got, d.Name+" "+string(d.Value))
		}
		if want := []string{`run-a {"n":"run-a"}`, `run-a.1 {"n":"run-a.1"}`, "run-b 2"}; !slices.Equal(got, want) {
			t.Errorf("values %q, want %q", got, want)
		}
		return err
	})
}
