package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/teststore"
)

// What is to be called after a commit finds what was written, and is not called where
// nothing was.
func TestThen(t *testing.T) {
	st := teststore.Open(t, t.TempDir())
	defer st.Close()
	var called []string
	judgings := func() (n int64) {
		t.Helper()
		err := st.Read(t.Context(), func(tx *store.Tx) (err error) {
			tx.Then(func() { called = append(called, "a read") })
			n, err = tx.SharedJudgings("", store.Judging{}.CreatedAt)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	broken := errors.New("broken")
	err := st.Write(t.Context(), func(tx *store.Tx) error {
		tx.Then(func() { called = append(called, "an error") })
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	err = st.Write(t.Context(), func(tx *store.Tx) error {
		tx.Then(func() {
			judgings() // a second read would wait for ever inside a write
			called = append(called, "first")
		})
		tx.Then(func() { called = append(called, "second") })
		return nil
	})
	if err != nil || !slices.Equal(called, []string{"first", "second"}) {
		t.Errorf("%v, called %q", err, called)
	}
}
