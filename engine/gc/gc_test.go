package gc

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/teststore"
)

var t0 = time.Unix(1_700_000_000, 0).UTC()

// world is a store with blobs, all of which are old at its time.
type world struct {
	t     *testing.T
	st    *store.Store
	blobs *blobfs.Store
	now   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	st := teststore.Open(t, dir)
	t.Cleanup(func() { _ = st.Close() })
	blobs, err := blobfs.Open(dir+"/blobs", blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, st: st, blobs: blobs, now: time.Now().Add(48 * time.Hour)}
}

func (w *world) put(text string) agon.Digest {
	w.t.Helper()
	d, err := w.blobs.Put(w.t.Context(), []byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) tree(name string) (root, file agon.Digest) {
	w.t.Helper()
	root, err := blob.PutFiles(w.t.Context(), w.blobs, []blob.File{{Path: name, Content: []byte(name)}}, blob.TreeLimits{})
	if err != nil {
		w.t.Fatal(err)
	}
	return root, agon.Sum([]byte(name))
}

func (w *world) write(fn func(tx *store.Tx) error) {
	w.t.Helper()
	if err := w.st.Write(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) collect(c Config) *Report {
	w.t.Helper()
	c.Store, c.Blobs = w.st, w.blobs
	if c.Now.IsZero() {
		c.Now = w.now
	}
	r, err := Collect(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) has(d agon.Digest) bool {
	w.t.Helper()
	ok, err := w.blobs.Has(w.t.Context(), d)
	if err != nil {
		w.t.Fatal(err)
	}
	return ok
}

// What something refers to stays, in whatever column it is named; the rest goes
// after the grace.
func TestCollect(t *testing.T) {
	w := newWorld(t)
	referred, named, orphan := w.put("referred to"), w.put("named in a note"), w.put("an orphan")
	root, file := w.tree("in a tree that a text names")
	lostRoot, lostFile := w.tree("in a tree that nothing names")
	w.write(func(tx *store.Tx) error {
		body, _ := json.Marshal(map[string]any{"deep": []any{named.Hex(), "tree " + string(root)}})
		return errors.Join(
			tx.AddRef(store.BlobRef{Digest: referred, What: store.RefTask, Owner: "a/t"}),
			tx.InsertNote(store.Note{Type: "note", ID: "n", At: t0, Body: body}),
		)
	})
	if r := w.collect(Config{Grace: 72 * time.Hour}); r.Removed != 0 || r.Young != 3 || r.Referenced != 4 || r.Blobs != 7 {
		t.Fatalf("within the grace: %+v", r)
	}
	dry := w.collect(Config{Grace: time.Hour, DryRun: true})
	if dry.Removed != 3 || dry.Freed == 0 || !dry.DryRun || !w.has(orphan) {
		t.Fatalf("dry run: %+v", dry)
	}
	wet := w.collect(Config{Grace: time.Hour})
	dry.DryRun = false
	if *wet != *dry {
		t.Errorf("the dry run said %+v, then %+v was done", dry, wet)
	}
	for d, want := range map[agon.Digest]bool{referred: true, named: true, root: true, file: true, orphan: false, lostRoot: false, lostFile: false} {
		if w.has(d) != want {
			t.Errorf("%s: kept %v, want %v", d, !want, want)
		}
	}
	if again := w.collect(Config{Grace: time.Hour}); again.Removed != 0 || again.Blobs != 4 {
		t.Errorf("again: %+v", again)
	}
}

// Evidence goes after its time, in two steps, and only that which nothing waits for.
func TestEvidence(t *testing.T) {
	w := newWorld(t)
	end := w.now.Add(-100 * 24 * time.Hour)
	evidence := map[string]agon.Digest{}
	w.write(func(tx *store.Tx) error { return tx.PutPolicy(agon.Sum([]byte("policy")), agon.Policy{}) })
	enter := func(id string, state agon.SubmissionState, ended time.Time) {
		evidence[id] = w.put("evidence of " + id)
		w.enter(id, state, ended, evidence[id])
	}
	enter("old", agon.SubmissionScored, end)
	enter("new", agon.SubmissionScored, w.now.Add(-24*time.Hour))
	enter("sits", agon.SubmissionScored, end)
	enter("undecided", agon.SubmissionPlaying, end)
	enter("judged", agon.SubmissionScored, end)
	w.write(func(tx *store.Tx) error {
		return errors.Join(
			tx.PutSeat(agon.Seat{Arena: "a", Submission: "sits", Miner: "m", Since: t0}),
			tx.InsertJudging(store.Judging{
				Rejudging:  agon.Rejudging{ID: "j", Run: "r-judged", Attempt: 1, Arena: "a", K: 2, Why: "share", Player: "v", State: agon.JudgingQueued, CreatedAt: t0},
				Submission: "judged", Subject: "judged", Deadline: w.now,
			}),
		)
	})
	c := Config{Grace: time.Hour, Evidence: 90 * 24 * time.Hour}
	shared := w.put("evidence of two runs")
	w.write(func(tx *store.Tx) error {
		return errors.Join(
			tx.AddRef(store.BlobRef{Digest: shared, What: store.RefEvidence, Owner: "r-old"}),
			tx.AddRef(store.BlobRef{Digest: shared, What: store.RefEvidence, Owner: "r-new"}),
		)
	})
	if r := w.collect(Config{Grace: c.Grace, Evidence: c.Evidence, DryRun: true}); r.EvidenceRuns != 1 || r.Removed != 0 || r.EvidenceBlobs != 1 || r.EvidenceBytes != int64(len("evidence of old")) {
		t.Fatalf("dry run: %+v", r)
	}
	if r := w.collect(c); r.EvidenceRuns != 1 || r.Removed != 0 {
		t.Fatalf("first: %+v", r)
	}
	if r := w.collect(c); r.EvidenceRuns != 0 || r.Removed != 1 {
		t.Fatalf("second: %+v", r)
	}
	for id, d := range evidence {
		if want := id != "old"; w.has(d) != want {
			t.Errorf("evidence of %s: kept %v, want %v", id, !want, want)
		}
	}
	w.gone(map[string][]string{"r-old": {agon.GoneEvidence}, "r-new": nil, "r-sits": nil})
}

// What boxes printed goes before the evidence, and nothing else does: not where the same
// bytes are something else too. The evidence takes it along.
func TestOutput(t *testing.T) {
	w := newWorld(t)
	w.write(func(tx *store.Tx) error { return tx.PutPolicy(agon.Sum([]byte("policy")), agon.Policy{}) })
	day := 24 * time.Hour
	files := map[string]agon.Digest{}
	ref := func(name, what, owner string) {
		if files[name] == "" {
			files[name] = w.put(name)
		}
		w.write(func(tx *store.Tx) error {
			return tx.AddRef(store.BlobRef{Digest: files[name], What: what, Owner: owner})
		})
	}
	for id, days := range map[string]time.Duration{"old": 100, "older": 300, "new": 1} {
		files["tree of "+id] = w.put("tree of " + id)
		w.enter(id, agon.SubmissionScored, w.now.Add(-days*day), files["tree of "+id])
		ref("printed by "+id, store.RefOutput, "r-"+id)
		ref("printed by both", store.RefOutput, "r-"+id)
	}
	// A box may print what is something else: a patch, or the code of a submission.
	ref("printed patch", store.RefOutput, "r-old")
	ref("printed patch", store.RefEvidence, "r-old")
	ref("printed code", store.RefOutput, "r-old")
	ref("printed code", store.RefCode, "new")
	ref("printed and named", store.RefOutput, "r-old")
	w.write(func(tx *store.Tx) error {
		return tx.InsertNote(store.Note{Type: "note", ID: "n", At: t0, Body: json.RawMessage(`"` + files["printed and named"].Hex() + `"`)})
	})
	c := Config{Grace: time.Hour, Output: 30 * day, Evidence: 200 * day}
	dry := c
	dry.DryRun = true
	if r := w.collect(dry); r.OutputRuns != 2 || r.OutputBlobs != 3 || r.OutputBytes != int64(len("printed by oldprinted by olderprinted and named")) || r.EvidenceRuns != 1 || r.EvidenceBlobs != 2 || r.Removed != 0 {
		t.Fatalf("dry run: %+v", r)
	}
	// The oldest run's output goes with its evidence.
	if r := w.collect(c); r.OutputRuns != 1 || r.EvidenceRuns != 1 || r.Removed != 0 {
		t.Fatalf("first: %+v", r)
	}
	if r := w.collect(c); r.OutputRuns != 0 || r.EvidenceRuns != 0 || r.Removed != 3 {
		t.Fatalf("second: %+v", r)
	}
	for name, d := range files {
		if want := !slices.Contains([]string{"printed by old", "printed by older", "tree of older"}, name); w.has(d) != want {
			t.Errorf("%s: kept %v, want %v", name, !want, want)
		}
	}
	w.gone(map[string][]string{"r-old": {agon.GoneOutput}, "r-older": {agon.GoneEvidence, agon.GoneOutput}, "r-new": nil})
}

// enter makes a submission with one run that has ended, whose evidence is a blob.
func (w *world) enter(id string, state agon.SubmissionState, ended time.Time, evidence agon.Digest) {
	w.t.Helper()
	w.write(func(tx *store.Tx) error {
		e, err := tx.InsertEntry(store.Entry{Submission: agon.Submission{ID: id, Arena: "a", Digest: agon.Sum([]byte(id)), State: state, CreatedAt: t0}})
		if err != nil {
			return err
		}
		r := store.Run{Run: agon.Run{
			RunSpec: agon.RunSpec{Run: "r-" + id, Arena: "a", Tasks: []agon.TaskRef{{Key: "t", Digest: agon.Sum(nil)}}}, Submission: id, State: agon.RunQueued, CreatedAt: t0,
		}, SubSeq: e.Seq, PolicyDigest: agon.Sum([]byte("policy"))}
		to := r
		to.State, to.EndedAt = agon.RunScored, ended
		a := store.Attempt{Attempt: agon.Attempt{Run: "r-" + id, N: 1, Validator: "v", State: "leased", LeasedAt: t0}, Lease: "l-" + id, Arena: "a", Submission: id}
		if err := errors.Join(tx.InsertRun(r), tx.InsertAttempt(a), tx.MoveRun("r-"+id, agon.RunQueued, to)); err != nil {
			return err
		}
		a.State, a.Counted, a.Evidence, a.EndedAt = store.AttemptDone, true, evidence, ended
		return errors.Join(tx.EndAttempt(a), tx.AddRef(store.BlobRef{Digest: evidence, What: store.RefEvidence, Owner: "r-" + id}))
	})
}

// gone compares what runs say is gone.
func (w *world) gone(want map[string][]string) {
	w.t.Helper()
	if err := w.st.Read(w.t.Context(), func(tx *store.Tx) error {
		for run, list := range want {
			got, err := tx.Gone(run)
			if err != nil || !slices.Equal(got, list) {
				w.t.Errorf("gone of %s: %v, want %v (%v)", run, got, list, err)
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}
