package research

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// A replay's page has the metric pair by pair in its own direction, the records
// up to its own and the patch; what a miner wrote stays text.
func TestReplayPage(t *testing.T) {
	observed, claimed := 2.25, 2.0
	n := play.Replay{
		Metric: "bits", Direction: agon.Minimize, Baseline: 2.5, Status: play.StatusAccepted, Observed: &observed, Claimed: &claimed, Rival: "sub-rival",
		Duel:    []play.DuelPair{{Seed: 1, Pair: quorum.Pair{Challenger: 2.25, Incumbent: 2.5}}, {Seed: 2, Pair: quorum.Pair{Challenger: 2.5, Incumbent: 2.25}}, {Seed: 3, Pair: quorum.Pair{Challenger: 2, Incumbent: 2}}},
		Others:  map[string]float64{"seconds": 3},
		Changed: []string{"a<b>.py\x1b[1m"}, Patch: "--- a\n+++ b\n+<script>\x1b[31m\n-old", Cut: true,
	}
	p := newReplayPage(n)
	if p.Won != 1 || p.Better != "lower" || p.Pairs[0].Gain != 0.25 || p.Pairs[1].Gain != -0.25 || p.Pairs[0].Mine != 60 || p.Pairs[0].Other != 120 {
		t.Errorf("%+v", p)
	}
	b := &coordinator.Book{Metric: "bits", Baseline: 2.5, More: 2}
	for i := range 20 {
		e := coordinator.BookEntry{Summary: "step <i>"}
		e.Submission, e.Number, e.Value = "sub-"+strings.Repeat("x", i), 3+i, 2.4
		b.Entries = append(b.Entries, e)
	}
	p.line(b, "sub-"+strings.Repeat("x", 15))
	if n := len(p.Lineage); n != maxLineage || p.Lineage[0].Number != 0 || !p.Lineage[n-1].Own || p.Lineage[n-1].Number != 18 || p.Older != 2+17-maxLineage {
		t.Errorf("%d of the line, %d older: %+v", n, p.Older, p.Lineage)
	}
	got, err := page(nil, nil).RenderRun(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bits 2.25", "claims 2;", "better in 1 of 3 pairs", `href="/submissions/sub-rival"`, "this submission", "7 records between", "The rest is left out", "seconds"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	for _, no := range []string{"<script", "<i>", "<b>", "\x1b"} {
		if strings.Contains(got, no) {
			t.Errorf("%q is in %s", no, got)
		}
	}
	got, err = page(nil, nil).RenderRun(newReplayPage(play.Replay{Metric: "bits", Status: play.StatusRejected, Reason: "bad_path", Notes: "it changes the benchmark"}))
	if err != nil || !strings.Contains(got, "No number came of it:</span> bad path: it changes the benchmark") {
		t.Errorf("%s, %v", got, err)
	}
}
