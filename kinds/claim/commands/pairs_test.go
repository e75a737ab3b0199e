package commands_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/claim"
	"github.com/agon-arena/agon/kinds/claim/commands"
	"github.com/agon-arena/agon/kinds/claim/wire"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// Pairs of a pushed batch in real boxes: grades, hydrated citations, usage, and
// what a script can do wrong.
func TestSeedPairs(t *testing.T) {
	o := kittest.Options(t.TempDir(), kit.List{claim.Kit()})
	d, root, err := kit.OpenDriver(t.Context(), o)
	if err != nil {
		t.Fatalf("no box: %v", err)
	}
	dir := t.TempDir()
	blobs, err := blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := o.Kinds(root)["claim"]
	p, err := kit.NewPlayer(t.Context(), o, d, root, map[string]kind.Kind{k.Name(): k}, blobs, filepath.Join(dir, "trees"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	play := commands.PlayPairs(p, blobs)
	head := "from caster_miner_sdk.decorators import entrypoint\nfrom caster_miner_sdk.api import search_web\n\n@entrypoint(\"evaluate_criterion\")\nasync def evaluate_criterion(request):\n"
	pair := wire.Pair{
		BatchID: "99999999-2222-4333-8444-555555555555", Candidate: wire.Candidate{UID: 4, ArtifactID: "aaaaaaaa-2222-4333-8444-555555555555"},
		Claim: wire.Claim{
			ClaimID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Text: "The harbour is deep.", BudgetUSD: .05,
			Rubric:    wire.Rubric{Title: "Accuracy", Description: "Right?", Options: wire.Options{{Value: -1, Description: "Fail"}, {Value: 1, Description: "Pass"}}},
			Reference: wire.Reference{Verdict: 1, Justification: "The harbour is deep, the report says.", Citations: []wire.Citation{}, Spans: []wire.Span{}},
		},
	}
	for i, c := range []struct {
		body, code string
		verdict    float64
	}{
		{"    r = await search_web(\"harbour report\")\n    x = r.results[0]\n    return {\"verdict\": 1, \"justification\": \"The harbour is deep, the report says.\", \"citations\": [{\"receipt_id\": r.receipt_id, \"result_id\": x.result_id}]}\n", "", .5},
		{"    return {\"verdict\": -1, \"justification\": \"no\", \"citations\": []}\n", "", 0},
		{"    return {\"verdict\": 7, \"justification\": \"no\", \"citations\": []}\n", wire.CodeInvocation, 0},
		{"    raise RuntimeError(\"sandbox_start_failed\")\n", wire.CodeInvocation, 0},
	} {
		pair.Script, pair.Attempt = []byte(head+c.body), 1
		pair.BatchID = fmt.Sprintf("99999999-2222-4333-8444-%012d", i)
		r, err := play(t.Context(), pair)
		if err != nil || r.ErrorCode != c.code || r.VerdictScore != c.verdict {
			t.Errorf("%q: %v %+v", c.body, err, r)
			continue
		}
		if r.Session.UID != 4 || len(r.Session.SessionID) != 36 {
			t.Errorf("session %+v", r.Session)
		}
		if i == 0 && (len(r.Citations) != 1 || !strings.Contains(r.Citations[0].URL, "harbour") || r.Usage.SearchCalls != 1 || r.Usage.SearchCost != .0025) {
			t.Errorf("citations %+v, usage %+v", r.Citations, r.Usage)
		}
	}
}
