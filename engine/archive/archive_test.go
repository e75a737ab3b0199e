package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/teststore"
)

var (
	t0     = time.Unix(1_700_000_000, 0).UTC()
	policy = agon.Policy{Models: []string{"*"}}
)

// faulty is a blob store whose calls end where the test says.
type faulty struct {
	blob.Store
	calls int // left until one fails; negative: none does
	wrong bool
	limit int
}

var errFault = errors.New("the blob store is away")

func (f *faulty) spend() error {
	if f.calls == 0 {
		return errFault
	}
	f.calls--
	return nil
}

func (f *faulty) Put(ctx context.Context, b []byte) (agon.Digest, error) {
	if err := f.spend(); err != nil {
		return "", err
	}
	if f.limit > 0 && len(b) > f.limit {
		return "", blob.ErrTooLarge
	}
	return f.Store.Put(ctx, b)
}

func (f *faulty) Get(ctx context.Context, d agon.Digest) ([]byte, error) {
	if err := f.spend(); err != nil {
		return nil, err
	}
	b, err := f.Store.Get(ctx, d)
	if f.wrong && err == nil && len(b) > 0 {
		return encode([]*store.Trail{{Run: "r-0", Events: []agon.Event{{Run: "r-0", Attempt: 1, Seq: 1, At: t0}}}})
	}
	return b, err
}

type world struct {
	t     *testing.T
	st    *store.Store
	blobs *faulty
	now   time.Time
}

func newWorld(t *testing.T, runs int) *world {
	t.Helper()
	dir := t.TempDir()
	folder, err := blobfs.Open(dir+"/blobs", blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, st: teststore.Open(t, dir), blobs: &faulty{Store: folder, calls: -1}, now: t0.Add(100 * 24 * time.Hour)}
	t.Cleanup(func() { _ = w.st.Close() })
	w.st.UseArchive(NewReader(w.blobs))
	w.write(func(tx *store.Tx) error { return tx.PutPolicy(agon.Sum([]byte("policy")), policy) })
	for i := range runs {
		w.enter(fmt.Sprint(i), agon.SubmissionScored, t0)
	}
	return w
}

func (w *world) write(fn func(tx *store.Tx) error) {
	w.t.Helper()
	if err := w.st.Write(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// enter stores a submission with a run r-ID that ended, its events and receipts.
func (w *world) enter(id string, state agon.SubmissionState, ended time.Time) {
	w.t.Helper()
	w.write(func(tx *store.Tx) error {
		e, err := tx.InsertEntry(store.Entry{Submission: agon.Submission{ID: id, Arena: "a", Digest: agon.Sum([]byte(id)), State: state, CreatedAt: t0}})
		if err != nil {
			return err
		}
		r := store.Run{Run: agon.Run{
			RunSpec: agon.RunSpec{Run: "r-" + id, Arena: "a", Tasks: []agon.TaskRef{{Key: "t", Digest: agon.Sum(nil)}}, Policy: policy}, Submission: id, State: agon.RunQueued, CreatedAt: t0,
		}, SubSeq: e.Seq, PolicyDigest: agon.Sum([]byte("policy"))}
		to := r
		to.State, to.EndedAt = agon.RunScored, ended
		errs := []error{tx.InsertRun(r), tx.MoveRun("r-"+id, agon.RunQueued, to)}
		for n := range int64(5) {
			data, _ := json.Marshal(map[string]any{"text": strings.Repeat(id, 50), "body": agon.Sum([]byte(id))})
			errs = append(errs, tx.InsertEvent(agon.Event{Run: "r-" + id, Attempt: 1 + int(n/3), Seq: 1 + n%3, At: t0.Add(time.Duration(n) * time.Millisecond), Task: "t", Type: "note", Data: data}))
		}
		errs = append(errs, tx.InsertEvent(agon.Event{Run: "r-" + id, Attempt: 2, Seq: 3, At: t0, Type: "box"}))
		for n := range 3 {
			errs = append(errs, tx.InsertReceipt("r-"+id, 1, agon.Receipt{ID: fmt.Sprintf("s-%d", 9-n), Model: "m", Cost: agon.Micros(n)}))
		}
		return errors.Join(errs...)
	})
}

// view is all that is read of the runs r-0 to r-N-1.
func (w *world) view(runs int) (out []any) {
	w.t.Helper()
	err := w.st.Read(w.t.Context(), func(tx *store.Tx) error {
		for i := range runs {
			id := fmt.Sprintf("r-%d", i)
			events, err := tx.Events(id, 0, 0, 100)
			page, err2 := tx.Events(id, 1, 2, 2)
			receipts, err3 := tx.Receipts(id, 1)
			types, err4 := tx.EventTypes(id, 2)
			if err := errors.Join(err, err2, err3, err4); err != nil {
				return err
			}
			out = append(out, events, page, receipts, types)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// rows counts the rows that stand in the database of the runs r-0 to r-N-1.
func (w *world) rows(runs int) (n int) {
	w.t.Helper()
	err := w.st.Read(w.t.Context(), func(tx *store.Tx) error {
		for i := range runs {
			x, err := tx.TrailOf(fmt.Sprintf("r-%d", i))
			if err != nil {
				return err
			}
			n += len(x.Events) + len(x.Receipts)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) config() Config {
	return Config{Store: w.st, Blobs: w.blobs, Now: w.now, Before: w.now.Add(-24 * time.Hour)}
}

func (w *world) move() *Report {
	w.t.Helper()
	r, err := Move(w.t.Context(), w.config())
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// Old runs leave the database and read as before; those that something waits for stay.
func TestMove(t *testing.T) {
	w := newWorld(t, 3)
	w.enter("young", agon.SubmissionScored, w.now)
	w.enter("undecided", agon.SubmissionPlaying, t0)
	w.enter("sits", agon.SubmissionScored, t0)
	w.write(func(tx *store.Tx) error {
		return tx.PutSeat(agon.Seat{Arena: "a", Submission: "sits", Miner: "m", Since: t0})
	})
	before := w.view(3)
	c := w.config()
	c.DryRun = true
	if r, err := Move(t.Context(), c); err != nil || r.Runs != 3 || r.Events != 18 || r.Receipts != 9 || w.rows(3) != 27 {
		t.Fatalf("dry run: %+v, %v", r, err)
	}
	if r := w.move(); r.Runs != 3 || r.Events != 18 || r.Receipts != 9 || r.Files != 1 || r.Bytes == 0 || r.Kept != 0 {
		t.Fatalf("moved: %+v", r)
	}
	if n := w.rows(3); n != 0 {
		t.Errorf("%d rows stay", n)
	}
	if !reflect.DeepEqual(w.view(3), before) {
		t.Errorf("from the archive: %+v\nwas %+v", w.view(3), before)
	}
	if r := w.move(); r.Runs != 0 || r.Files != 0 {
		t.Errorf("again: %+v", r)
	}
	var kept [][32]byte
	for _, id := range []string{"0", "1", "2"} {
		Digests(string(agon.Sum([]byte(id))), func(d [32]byte) { kept = append(kept, d) })
	}
	err := w.st.Read(t.Context(), func(tx *store.Tx) error {
		list, err := tx.Archives()
		if err != nil || len(list) != 1 {
			return fmt.Errorf("archives: %+v, %w", list, err)
		}
		marks, err := w.blobs.Get(t.Context(), list[0].Marks)
		for _, d := range kept {
			if !slices.ContainsFunc(slices.Collect(slices.Chunk(marks, 32)), func(b []byte) bool { return string(b) == string(d[:]) }) {
				t.Errorf("%x is named by the rows and not by the marks", d)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Files go once all of their runs are old and nothing waits for them; their runs say so, and
// what is not steps stays.
func TestDrop(t *testing.T) {
	w := newWorld(t, 3)
	w.move()
	w.enter("3", agon.SubmissionScored, w.now.Add(-48*time.Hour))
	w.move()
	var list []store.Archived
	gone := func(run string) []string {
		t.Helper()
		var out []string
		if err := w.st.Read(t.Context(), func(tx *store.Tx) (err error) {
			if list, err = tx.Archives(); err == nil {
				out, err = tx.Gone(run)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	drop := func(c Config) Dropped {
		t.Helper()
		d, err := Drop(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return *d
	}
	c := w.config()
	c.Before = w.now.Add(-72 * time.Hour) // the second file is younger
	if out := gone("r-0"); out != nil || len(list) != 2 {
		t.Fatalf("gone before: %v, %d files", out, len(list))
	}
	first := list[slices.IndexFunc(list, func(a store.Archived) bool { return a.Runs == 3 })]
	want := Dropped{Files: 1, Runs: 3, Bytes: first.Bytes}
	c.DryRun = true
	if d := drop(c); d != want || gone("r-0") != nil {
		t.Errorf("dry run: %+v, want %+v", d, want)
	}
	c.DryRun = false
	w.write(func(tx *store.Tx) error {
		return tx.PutSeat(agon.Seat{Arena: "a", Submission: "1", Miner: "m", Since: t0})
	})
	if d := drop(c); d != (Dropped{}) {
		t.Errorf("one of the file's submissions sits: %+v", d)
	}
	w.write(func(tx *store.Tx) error {
		return tx.PutSeat(agon.Seat{Arena: "a", Submission: "3", Miner: "m", Since: t0})
	})
	if d := drop(c); d != want {
		t.Errorf("dropped: %+v, want %+v", d, want)
	}
	for _, run := range []string{"r-0", "r-1", "r-2"} {
		if out := gone(run); !slices.Equal(out, []string{agon.GoneSteps}) {
			t.Errorf("gone of %s: %v", run, out)
		}
	}
	if out := gone("r-3"); out != nil || len(list) != 1 {
		t.Errorf("of the other file: %v, %d files", out, len(list))
	}
	for _, v := range w.view(3) {
		if n := reflect.ValueOf(v).Len(); n != 0 {
			t.Errorf("steps that are gone are read: %+v", v)
		}
	}
	if d, r := drop(c), w.move(); d != (Dropped{}) || r.Runs != 0 {
		t.Errorf("again: %+v, moved %+v", d, r)
	}
}

// Wherever a Move ends, nothing is lost, all reads as before, and the next one goes on.
func TestMoveEnds(t *testing.T) {
	w := newWorld(t, 2)
	before := w.view(2)
	for calls := 0; ; calls++ {
		w.blobs.calls = calls
		_, err := Move(t.Context(), w.config())
		w.blobs.calls = -1
		if !reflect.DeepEqual(w.view(2), before) {
			t.Fatalf("after %d calls of the blob store: %+v", calls, w.view(2))
		}
		if err == nil {
			break
		}
		if !errors.Is(err, errFault) || w.rows(2) != 18 {
			t.Fatalf("after %d calls of the blob store: %v, %d rows", calls, err, w.rows(2))
		}
	}
	if n := w.rows(2); n != 0 {
		t.Errorf("%d rows stay", n)
	}

	// The note is stored and the process dies before the rows go.
	w.enter("2", agon.SubmissionScored, t0)
	before = w.view(3)
	m := &mover{Config: w.config(), r: &Report{}}
	if err := m.add(t.Context(), "r-2"); err != nil {
		t.Fatal(err)
	}
	a, err := m.write(t.Context(), m.runs)
	if err != nil {
		t.Fatal(err)
	}
	note := store.ArchivedRun{Run: "r-2", File: a.File, Events: 6, Receipts: 3}
	w.write(func(tx *store.Tx) error { return tx.PutArchive(a, []store.ArchivedRun{note}) })
	if !reflect.DeepEqual(w.view(3), before) || w.rows(3) != 9 {
		t.Errorf("rows in both places: %+v", w.view(3))
	}
	w.move()
	if !reflect.DeepEqual(w.view(3), before) || w.rows(3) != 0 {
		t.Errorf("after the next: %d rows, %+v", w.rows(3), w.view(3))
	}
}

// A file that does not hold what the rows say, or is too large, removes nothing.
func TestMoveKeeps(t *testing.T) {
	w := newWorld(t, 1)
	before := w.view(1)
	w.blobs.wrong = true
	if _, err := Move(t.Context(), w.config()); err == nil || !strings.Contains(err.Error(), "nothing is removed") {
		t.Errorf("a wrong file: %v", err)
	}
	w.blobs.wrong, w.blobs.limit = false, 100
	if r := w.move(); r.Runs != 0 || r.Kept != 1 {
		t.Errorf("a file that is too large: %+v", r)
	}
	if !reflect.DeepEqual(w.view(1), before) || w.rows(1) != 9 {
		t.Errorf("%d rows, %+v", w.rows(1), w.view(1))
	}
}

// Many runs make several files, and a page of a long run reads its file once.
func TestFiles(t *testing.T) {
	w := newWorld(t, 0)
	big := json.RawMessage(`"` + strings.Repeat("x", fileBytes/3) + `"`)
	for i := range 4 {
		id := fmt.Sprint(i)
		w.enter(id, agon.SubmissionScored, t0)
		w.write(func(tx *store.Tx) error {
			return tx.InsertEvent(agon.Event{Run: "r-" + id, Attempt: 3, Seq: 1, At: t0, Type: "output", Data: big})
		})
	}
	before := w.view(4)
	if r := w.move(); r.Files != 2 || r.Runs != 4 {
		t.Errorf("files: %+v", r)
	}
	if !reflect.DeepEqual(w.view(4), before) {
		t.Error("not as before")
	}
	w.blobs.calls = 0 // from memory
	for range 3 {
		w.view(4)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := encode([]*store.Trail{{Run: "r", Events: []agon.Event{{Run: "r", Attempt: 1, Seq: 1, At: t0, Type: "note"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		file []byte
		part int
		run  string
	}{
		"another run": {good, 0, "q"}, "a part that is not there": {good, 1, "r"}, "below zero": {good, -1, "r"},
		"cut": {good[:len(good)-9], 0, "r"}, "empty": {nil, 0, "r"},
	} {
		if _, err := decode(x.file, x.part, x.run); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if x, err := decode(good, 0, "r"); err != nil || len(x.Events) != 1 || !x.Events[0].At.Equal(t0) {
		t.Errorf("%+v, %v", x, err)
	}
}

func FuzzDecode(f *testing.F) {
	good, err := encode([]*store.Trail{{Run: "r", Events: []agon.Event{{Run: "r", Attempt: 1, Seq: 1, At: t0, Type: "note"}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = decode(b, 0, "r") })
}

func TestDigests(t *testing.T) {
	d := agon.Sum([]byte("x"))
	for text, want := range map[string]int{
		"": 0, string(d): 1, d.Hex(): 1, `{"a":"` + string(d) + `","b":"` + d.Hex() + `"}`: 2,
		d.Hex() + "0": 0, "f" + d.Hex(): 0, d.Hex()[1:]: 0, strings.ToUpper(d.Hex()): 0, d.Hex() + "\n" + d.Hex(): 2,
	} {
		var got []string
		Digests(text, func(k [32]byte) { got = append(got, fmt.Sprintf("%x", k)) })
		if len(got) != want || slices.ContainsFunc(got, func(s string) bool { return s != d.Hex() }) {
			t.Errorf("%q: %v, want %d", text, got, want)
		}
	}
}
