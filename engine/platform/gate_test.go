package platform

import (
	"io/fs"
	"slices"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
)

// gatedKind keeps out what names a reason, and notes which earlier submissions it was shown.
type gatedKind struct {
	fakeKind
	saw []string
}

func (k *gatedKind) Gate(_ *agon.Arena, files fs.FS, earlier []agon.Submission, read func(agon.Digest) (fs.FS, error)) (*kind.Exclusion, error) {
	k.saw = nil
	for _, s := range earlier {
		tree, err := read(s.Digest)
		if err != nil {
			return nil, err
		}
		b, err := fs.ReadFile(tree, "agent.py")
		if err != nil {
			return nil, err
		}
		k.saw = append(k.saw, string(b))
	}
	switch b, err := fs.ReadFile(files, "agent.py"); string(b) {
	case "copy":
		return &kind.Exclusion{Code: "near_copy", Message: "too like", Of: "its original"}, err
	case "rule":
		return &kind.Exclusion{Code: "integrity_failed", Message: "breaks a rule", Refused: true}, err
	default:
		return nil, err
	}
}

// A gate excludes copies, refuses what breaks a rule, and compares with what
// other owners entered before, oldest first, except for what was kept out.
func TestKindGate(t *testing.T) {
	k := &gatedKind{}
	f := newFixture(t, 1, func(c *Config, _ *agon.Arena) { c.Kinds = map[string]kind.Kind{"fake": k} })
	f.ledger.coldkey["m3"] = "cold-m3"
	for _, x := range []struct {
		miner, content string
		state          agon.SubmissionState
		code           string
		saw            []string
	}{
		{miner1, "first", agon.SubmissionQueued, "", nil},
		{miner2, "second", agon.SubmissionQueued, "", []string{"first"}},
		{miner2, "copy", agon.SubmissionExcluded, "near_copy", []string{"first"}},
		{miner1, "rule", agon.SubmissionRefused, "integrity_failed", []string{"second"}},
		{"m3", "last", agon.SubmissionQueued, "", []string{"first", "second"}},
	} {
		s := f.submit(x.miner, x.content)
		i := slices.IndexFunc(s.Findings, func(f agon.Finding) bool { return f.Code == x.code })
		if s.State != x.state || (i >= 0) != (x.code != "") || !slices.Equal(k.saw, x.saw) {
			t.Errorf("%s of %s: %s %+v; the gate saw %q, want %s and %q", x.content, x.miner, s.State, s.Findings, k.saw, x.state, x.saw)
		}
	}
	// Who sends the same files again has them, and the gate, which is dear, is not asked.
	k.saw = []string{"not asked"}
	if s := f.submit(miner1, "first"); s.Created || !slices.Equal(k.saw, []string{"not asked"}) {
		t.Errorf("sent again: created %v, the gate saw %q", s.Created, k.saw)
	}
	// What was kept out is never played.
	f.playAll(val1, func(l *client.Lease) float64 {
		if c := l.Submission.State; c == agon.SubmissionExcluded || c == agon.SubmissionRefused {
			t.Errorf("submission %s was leased though it is %s", l.Submission.ID, c)
		}
		return 0.5
	})
}
