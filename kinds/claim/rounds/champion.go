package rounds

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/supply"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// champion answers claims by playing a script in a box, as a validator does,
// with docs as what search finds.
type champion struct {
	player *kit.Player
	blobs  blob.Store
	sub    agon.Submission
	n      int
}

func newChampion(ctx context.Context, o kit.Options, work string, script []byte, docs *Corpus) (*champion, error) {
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &champion{}
	if c.blobs, err = blobfs.Open(filepath.Join(work, "blobs"), blobfs.Options{}); err != nil {
		return nil, err
	}
	digest, err := blob.PutFiles(ctx, c.blobs, []blob.File{{Path: play.AgentFile, Content: script}}, blob.TreeLimits{})
	if err != nil {
		return nil, err
	}
	c.sub = agon.Submission{ID: "champion", Arena: "supply", Name: "champion", Digest: digest}
	k := play.New(play.Config{Rootfs: root})
	ks := map[string]kind.Kind{k.Name(): k}
	if c.player, err = kit.NewPlayerOver(ctx, o, d, root, ks, c.blobs, filepath.Join(work, "trees"), docs); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *champion) close() { c.player.Close() }

// Answer implements supply.Champion.
func (c *champion) Answer(ctx context.Context, cl play.Claim) (int, bool, error) {
	c.n++
	ref := play.Reference{Verdict: cl.Payload.VerdictOptions[0].Value, Justification: "not used", Citations: []play.RefCitation{}, Spans: []play.Span{}}
	_, pair, err := PlayPair(ctx, c.player, c.blobs, c.sub, fmt.Sprintf("champion-%d", c.n), 1, cl, ref, nil)
	if err != nil || pair == nil || pair.Response == nil {
		return 0, false, err // a script without an answer got it wrong
	}
	return pair.Response.Verdict, true, nil
}

// PlayPair plays one script on one claim by the validator's own player; libs are the
// packages that it is shown, nil for none. An
// error is our failure; pair is nil where the script left nothing.
func PlayPair(ctx context.Context, p *kit.Player, blobs blob.Store, sub agon.Submission, run string, attempt int, cl play.Claim, ref play.Reference, libs *agon.Libraries) (*validator.Attempt, *play.Pair, error) {
	dir, err := tempdir.Make("claim")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	set := filepath.Join(dir, "set")
	if err := supply.Write(set, &supply.Set{Tasks: []supply.Task{{Claim: cl, Reference: ref}}}); err != nil {
		return nil, nil, err
	}
	digest, err := blob.PutTree(ctx, blobs, filepath.Join(set, "claim-001"), blob.TreeLimits{})
	if err != nil {
		return nil, nil, err
	}
	att := p.Play(ctx, validator.Job{
		Run: agon.RunSpec{
			Run: run, Arena: sub.Arena, Tasks: []agon.TaskRef{{Key: "supply/claim", Digest: digest}},
			Policy: agon.Policy{Models: []string{"*"}, Budget: agon.Budget{Micros: cl.Budget, Calls: 200}, Libraries: libs},
		},
		Attempt: attempt, Arena: agon.Arena{ID: sub.Arena, Kind: play.Name}, Submission: sub,
	})
	if att.Fault.Ours() {
		return nil, nil, fmt.Errorf("play %s: %s", run, att.Reason)
	}
	pairs, err := play.DecodePairs(att.Files[play.PairsFile])
	if err != nil || len(pairs) != 1 {
		return att, nil, nil //nolint:nilerror // what the script left is not evidence of ours
	}
	return att, &pairs[0], nil
}
