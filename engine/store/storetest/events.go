package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

func events(t *testing.T, s *suite) {
	e := agon.Event{Run: "r0", Attempt: 1, Seq: 1, At: t0, Type: "note", Data: json.RawMessage(`{"text":"a"}`)}
	s.write(func(tx *store.Tx) error {
		if err := tx.InsertEvent(e); err != nil {
			return err
		}
		there, err := tx.EventSeqs("r0", 1, 1, 2)
		if err != nil || len(there) != 1 || !there[1] {
			t.Errorf("numbers: %v, %v", there, err)
		}
		for _, x := range []struct {
			attempt int
			seq     int64
		}{{2, 1}, {1, 3}, {1, 2}} {
			if err := tx.InsertEvent(agon.Event{Run: "r0", Attempt: x.attempt, Seq: x.seq, At: t0, Type: "note"}); err != nil {
				return err
			}
		}
		return nil
	})
	e.Data = json.RawMessage(`{"text":"b"}`)
	if err := s.Write(ctx, func(tx *store.Tx) error { return tx.InsertEvent(e) }); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second event of one number: %v", err)
	}
	s.read(func(tx *store.Tx) error {
		list, err := tx.Events("r0", 0, 0, 3)
		if len(list) != 3 || string(list[0].Data) != `{"text":"a"}` || list[1].Seq != 2 || list[2].Seq != 3 || list[1].Data != nil {
			t.Errorf("events: %+v", list)
		}
		rest, err2 := tx.Events("r0", 1, 3, 10)
		if len(rest) != 1 || rest[0].Attempt != 2 {
			t.Errorf("rest: %+v", rest)
		}
		return errors.Join(err, err2)
	})
}

// shelf is an archive in memory, by run.
type shelf map[string]*store.Trail

func (a shelf) Run(_ context.Context, _ agon.Digest, _ int, run string) (*store.Trail, error) {
	if a[run] == nil {
		return nil, errors.New("not on the shelf")
	}
	return a[run], nil
}

// What stands in the archive is read as before: while its rows are there too, when they are
// gone, and with rows that came later. Other rows than the archive has are never removed.
func archived(t *testing.T, s *suite) {
	s.seed(2)
	receipt := agon.Receipt{ID: "b", Model: "m", Cost: 5}
	s.write(func(tx *store.Tx) error {
		err := errors.Join(tx.InsertAttempt(attempt("r0", 1, "v")), tx.InsertReceipt("r0", 1, receipt), tx.InsertReceipt("r0", 1, agon.Receipt{ID: "a"}))
		for _, n := range []int64{1, 2, 3} {
			err = errors.Join(err, tx.InsertEvent(agon.Event{Run: "r0", Attempt: 1, Seq: n, At: t0, Type: "note", Data: json.RawMessage(`{"n":1}`)}))
		}
		return errors.Join(err, tx.InsertEvent(agon.Event{Run: "r0", Attempt: 2, Seq: 1, At: t0, Type: "box"}))
	})
	type view struct {
		All, Page []agon.Event
		Receipts  []agon.Receipt
		Types     map[string]int64
		Result    []agon.Receipt
	}
	look := func() (v view) {
		s.read(func(tx *store.Tx) error {
			var errs [5]error
			v.All, errs[0] = tx.Events("r0", 0, 0, 10)
			v.Page, errs[1] = tx.Events("r0", 1, 1, 2)
			v.Receipts, errs[2] = tx.Receipts("r0", 1)
			v.Types, errs[3] = tx.EventTypes("r0", 1)
			var results map[string]*store.Result
			if results, errs[4] = tx.Results([]string{"r0/1", "r1/1"}); results["r0/1"] != nil {
				v.Result = results["r0/1"].Receipts
			}
			return errors.Join(errs[:]...)
		})
		return v
	}
	before := look()
	if len(before.All) != 4 || len(before.Page) != 2 || len(before.Receipts) != 2 || before.Types["note"] != 3 || len(before.Result) != 2 {
		t.Fatalf("before: %+v", before)
	}
	var trail *store.Trail
	s.read(func(tx *store.Tx) (err error) { trail, err = tx.TrailOf("r0"); return err })
	note := store.ArchivedRun{Run: "r0", File: "file", Events: 4, Receipts: 2}
	put := func(tx *store.Tx) error {
		return tx.PutArchive(store.Archived{File: "file", Marks: "marks", Bytes: 9, At: t0}, []store.ArchivedRun{note})
	}
	clear := func() (cleared bool) {
		s.write(func(tx *store.Tx) (err error) { cleared, err = tx.ClearArchived("r0"); return err })
		return cleared
	}
	late := agon.Event{Run: "r0", Attempt: 2, Seq: 2, At: t0.Add(time.Second), Type: "note"}
	s.write(put)
	if err := s.Write(ctx, put); !errors.Is(err, store.ErrConflict) {
		t.Errorf("archived twice: %v", err)
	}
	s.write(func(tx *store.Tx) error { return tx.InsertEvent(late) })
	if clear() {
		t.Fatal("a row that the archive does not have is removed")
	}
	s.read(func(tx *store.Tx) (err error) { trail, err = tx.TrailOf("r0"); return err }) // out of the archive again
	s.UseArchive(shelf{"r0": trail})
	note.Events = 5
	before = look()
	s.write(put)
	same(t, "with rows and archive", look(), before)
	for range 2 { // the second time by another collector
		if !clear() {
			t.Error("not cleared")
		}
	}
	same(t, "without rows", look(), before)
	var left *store.Trail
	s.read(func(tx *store.Tx) (err error) { left, err = tx.TrailOf("r0"); return err })
	if len(left.Events)+len(left.Receipts) != 0 {
		t.Errorf("rows stay: %+v", left)
	}
	later := agon.Event{Run: "r0", Attempt: 2, Seq: 3, At: t0, Type: "note"}
	s.write(func(tx *store.Tx) error {
		there := map[int64]bool{}
		err := tx.ArchivedSeqs("r0", 2, there)
		same(t, "numbers", there, map[int64]bool{1: true, 2: true})
		return errors.Join(err, tx.InsertEvent(later), tx.InsertReceipt("r0", 1, receipt), tx.InsertReceipt("r0", 1, agon.Receipt{ID: "c"}))
	})
	before.All = append(before.All, later)
	before.Receipts = append(before.Receipts, agon.Receipt{ID: "c"})
	before.Result = before.Receipts
	same(t, "with rows that came later", look(), before)
	s.UseArchive(nil)
	if err := s.Read(ctx, func(tx *store.Tx) error { _, err := tx.Events("r0", 0, 0, 1); return err }); err == nil {
		t.Error("archived events are empty where the archive cannot be read")
	}
}
