package platform

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/store"
)

// under stores blobs through the platform under one lease.
type under struct {
	f     *fixture
	who   string
	lease string
}

func (u under) Put(ctx context.Context, b []byte) (agon.Digest, error) {
	d := agon.Sum(b)
	return d, u.f.PutBlob(ctx, Caller{Hotkey: u.who}, u.lease, d, b)
}

func (u under) Get(context.Context, agon.Digest) ([]byte, error) { return nil, blob.ErrNotFound }

func (u under) Has(context.Context, agon.Digest) (bool, error) { return false, nil }

func (u under) tree(content string) agon.Digest {
	u.f.t.Helper()
	d, err := blob.PutFiles(bg, u, []blob.File{{Path: "out", Content: []byte(content)}}, blob.TreeLimits{})
	must(u.f.t, err)
	return d
}

// What a validator did not put under the lease is not its evidence, whatever
// it knows of it, unless everybody may read it already.
func TestEvidenceIsOfItsLease(t *testing.T) {
	f := newFixture(t, 3)
	f.arena.Tasks[2].Hidden = true
	must(t, f.EnsureArena(bg, f.arena))
	secret := f.submit(miner1, "secret code")
	one, two := f.claim(val1), f.claim(val1)
	other := f.claim(val2)

	mine := under{f, val1, one.ID}.tree("mine")
	elsewhere := under{f, val1, two.ID}.tree("of the other lease")
	theirs := under{f, val2, other.ID}.tree("of another validator")
	// The manifest of a hidden tree may be guessed by one who knows its files' digests.
	manifest, err := f.cfg.Blobs.Get(bg, f.arena.Tasks[2].Digest)
	must(t, err)
	forged := agon.Sum(manifest)
	must(t, f.PutBlob(bg, Caller{Hotkey: val1}, one.ID, forged, manifest))

	try := func(d agon.Digest) error {
		r := scored(one, 1)
		r.Evidence = d
		_, err := f.Platform.Result(bg, Caller{Hotkey: val1}, one.ID, r)
		return err
	}
	for name, d := range map[string]agon.Digest{
		"a queued submission": secret.Digest, "another lease's": elsewhere,
		"another validator's": theirs, "not stored": agon.Sum([]byte("?")), "a manifest over a hidden file": forged,
	} {
		if e := wantCode(t, try(d), 422, "bad_result"); e.Field != "evidence" {
			t.Errorf("%s: field %q", name, e.Field)
		}
	}
	if _, err := f.Blob(bg, Caller{Hotkey: val2}, mine); err == nil {
		t.Error("bytes of a lease without a result can be read")
	}
	must(t, try(mine))
	must(t, try(mine)) // answered alike
	wantCode(t, f.PutBlob(bg, Caller{Hotkey: val1}, one.ID, forged, manifest), 409, "result_conflict")
	wantCode(t, f.PutBlob(bg, Caller{Hotkey: val1}, other.ID, forged, manifest), 403, "not_holder")
	wantCode(t, f.PutBlob(bg, Caller{Hotkey: val1}, "none", forged, manifest), 403, "not_holder")

	// An open task's tree is public: naming it opens nothing.
	r := scored(two, 1)
	r.Evidence = f.arena.Tasks[0].Digest
	_, err = f.Platform.Result(bg, Caller{Hotkey: val1}, two.ID, r)
	must(t, err)
	f.read(func(tx *store.Tx) error {
		left, err := tx.Uploads(one.ID)
		if len(left) > 0 {
			t.Errorf("%d uploads are kept after the result", len(left))
		}
		return err
	})
}

// What a validator uploaded beside evidence is its lease's own, and is read by who
// may read evidence.
func TestUploadsBesideEvidence(t *testing.T) {
	f := newFixture(t, 1)
	f.arena.Evidence = agon.EvidenceForeign
	must(t, f.EnsureArena(bg, f.arena))
	f.submit(miner1, "code")
	l := f.claim(val1)
	secret := f.submit(miner2, "secret")
	log := []byte("a log of another protocol")
	must(t, f.PutBlob(bg, Caller{Hotkey: val1}, l.ID, agon.Sum(log), log))
	r := scored(l, 1)
	r.Evidence = ""
	foreign := Caller{Hotkey: val1, Wire: "another"}
	for _, bad := range []agon.Digest{"", "x", agon.Sum([]byte("never put")), secret.Digest} {
		r.Uploads = []agon.Digest{bad}
		_, err := f.Platform.Result(bg, foreign, l.ID, r)
		wantCode(t, err, 422, "bad_result")
	}
	if _, err := f.Blob(bg, Caller{Hotkey: miner2}, agon.Sum(log)); err == nil {
		t.Error("a rival reads the upload of a run that is played")
	}
	r.Uploads = []agon.Digest{agon.Sum(log)}
	_, err := f.Platform.Result(bg, foreign, l.ID, r)
	must(t, err)
	for _, c := range []Caller{{}, {Hotkey: miner1}, {Hotkey: miner2}} {
		if b, err := f.Blob(bg, c, agon.Sum(log)); err != nil || !bytes.Equal(b, log) {
			t.Errorf("%+v reads %q, %v", c, b, err)
		}
	}
}

// What boxes printed has a class of its own, of the kind's choice; all of a run's files are read
// by the same people. The same bytes at two places are both.
func TestOutputOfARun(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "code")
	l := f.claim(val1)
	tree, err := blob.PutFiles(bg, under{f, val1, l.ID}, []blob.File{
		{Path: "out", Content: []byte("result")}, {Path: "printed", Content: []byte("words")}, {Path: "same", Content: []byte("twice")}, {Path: "same.printed", Content: []byte("twice")},
	}, blob.TreeLimits{})
	must(t, err)
	r := scored(l, 1)
	r.Evidence = tree
	_, err = f.Platform.Result(bg, Caller{Hotkey: val1}, l.ID, r)
	must(t, err)
	for text, want := range map[string][]string{"result": {store.RefEvidence}, "words": {store.RefOutput}, "twice": {store.RefEvidence, store.RefOutput}} {
		d := agon.Sum([]byte(text))
		f.read(func(tx *store.Tx) error {
			refs, err := tx.Refs(d)
			var got []string
			for _, x := range refs {
				got = append(got, x.What)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s is %v, want %v", text, got, want)
			}
			return err
		})
		_, mine := f.Blob(bg, Caller{Hotkey: miner1}, d)
		_, rivals := f.Blob(bg, Caller{Hotkey: miner2}, d)
		_, result := f.Blob(bg, Caller{Hotkey: miner2}, agon.Sum([]byte("result")))
		if mine != nil || (rivals == nil) != (result == nil) {
			t.Errorf("%s: its miner: %v, a rival: %v, and the result: %v", text, mine, rivals, result)
		}
	}
}

// A stranger with a lease's id learns nothing of what is stored.
func TestEvidenceProbe(t *testing.T) {
	f := newFixture(t, 1)
	s := f.submit(miner1, "secret")
	l := f.claim(val1)
	r := scored(l, 1)
	r.Evidence = s.Digest
	_, err := f.Platform.Result(bg, Caller{Hotkey: val2}, l.ID, r)
	wantCode(t, err, 403, "not_holder")
}

// Digests name bytes: of hidden tasks and of undecided submissions they are
// shown to those only who may read them.
func TestDigestsAreWithheld(t *testing.T) {
	f := newFixture(t, 2)
	f.arena.Tasks[1].Hidden = true
	must(t, f.EnsureArena(bg, f.arena))
	s := f.submit(miner1, "code")
	if s.Digest == "" {
		t.Fatal("the miner is not shown the digest of what it entered")
	}
	seen := func(c Caller) (listed, viewed bool) {
		page, err := f.Submissions(bg, c, "demo", "", "", 0)
		must(t, err)
		x, err := f.Submission(bg, c, s.ID)
		must(t, err)
		return page.Items[0].Digest != "", x.Digest != ""
	}
	check := func(want map[string]bool) {
		t.Helper()
		for who, w := range want {
			if l, v := seen(Caller{Hotkey: who, Operator: who == operator}); l != w || v != w {
				t.Errorf("%q sees the digest: list %v, view %v, want %v", who, l, v, w)
			}
		}
	}
	check(map[string]bool{"": false, miner1: true, miner2: false, val1: false, operator: true})
	l := f.claim(val1)
	if l.Run.Tasks[0].Digest == "" || l.Submission.Digest == "" {
		t.Error("a lease lacks what it is about")
	}
	f.result(val1, l, scored(l, 1))
	check(map[string]bool{"": false, miner2: false, val1: true, val2: false})
	hiddenRun := f.claim(val1)
	list, err := f.Arenas(bg)
	must(t, err)
	one, err := f.Arena(bg, "demo")
	must(t, err)
	for _, tasks := range [][]agon.TaskRef{list[0].Tasks, one.Tasks} {
		if tasks[0].Digest == "" || tasks[1].Digest != "" {
			t.Errorf("an arena shows %+v", tasks)
		}
	}
	for who, w := range map[string]bool{"": false, miner1: false, val1: true} {
		r, err := f.Run(bg, Caller{Hotkey: who}, hiddenRun.Run.Run)
		must(t, err)
		if got := r.Tasks[0].Digest != ""; got != w {
			t.Errorf("%q sees the digest of a hidden task of a run: %v", who, got)
		}
	}
	f.result(val1, hiddenRun, scored(hiddenRun, 1))
	check(map[string]bool{"": true, miner2: true})
}

// away is a blob store whose reads fail while it is away.
type away struct {
	blob.Store
	err error
}

func (a *away) Get(ctx context.Context, d agon.Digest) ([]byte, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.Store.Get(ctx, d)
}

// A store that cannot be read is our fault: the validator reports again, and its result counts.
func TestEvidenceStoreAway(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "code")
	l := f.claim(val1)
	r := scored(l, 1)
	r.Evidence = under{f, val1, l.ID}.tree("mine")
	at := &away{Store: f.Platform.cfg.Blobs, err: errors.New("no space left on device")}
	f.Platform.cfg.Blobs = at
	_, err := f.Result(bg, Caller{Hotkey: val1}, l.ID, r)
	var e *agon.Error
	if err == nil || errors.As(err, &e) && e.Status < 500 {
		t.Fatalf("while the store is away: %v, want an error that the validator tries again", err)
	}
	at.err = nil
	if reply, err := f.Result(bg, Caller{Hotkey: val1}, l.ID, r); err != nil || !reply.Counted {
		t.Fatalf("afterwards: %+v, %v", reply, err)
	}
}
