package platform

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

func TestPages(t *testing.T) {
	f := newFixture(t, 3)
	for i := range 4 {
		f.submit([]string{miner1, miner2}[i%2], fmt.Sprint(i))
	}
	var names []string
	cursor := ""
	for {
		page, err := f.Submissions(bg, Caller{}, "demo", "", cursor, 3)
		must(t, err)
		for _, s := range page.Items {
			names = append(names, fmt.Sprint(s.Seq))
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if got := strings.Join(names, ""); got != "4321" {
		t.Errorf("submissions %s", got)
	}
	seen := map[string]bool{}
	cursor = ""
	for {
		page, err := f.Runs(bg, Caller{}, "demo", "", "queued", cursor, 5)
		must(t, err)
		for _, r := range page.Items {
			seen[r.RunSpec.Run] = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d runs", len(seen))
	}
	mine, err := f.Submissions(bg, Caller{}, "", miner2, "", 0)
	must(t, err)
	if len(mine.Items) != 2 {
		t.Errorf("%d of one miner", len(mine.Items))
	}
	_, err = f.Runs(bg, Caller{}, "", "", "", "§", 0)
	wantCode(t, err, 422, "bad_cursor")
	_, err = f.Runs(bg, Caller{}, "", "", "dancing", "", 0)
	wantCode(t, err, 422, "bad_state")
	_, err = f.Submissions(bg, Caller{}, "nowhere", "", "", 0)
	wantCode(t, err, 404, "not_found")
	for _, err := range []error{
		second(f.Run(bg, Caller{}, "x")), second(f.Submission(bg, Caller{}, "x")),
		second(f.Arena(bg, "x")), second(f.Board(bg, "x")), second(f.Target(bg, "x")), second(f.Events(bg, Caller{}, "x", 0, 0, 0)),
		second(f.SubmissionFiles(bg, Caller{}, "x")),
	} {
		wantCode(t, err, 404, "not_found")
	}
}

func second[T any](_ T, err error) error { return err }

func TestWeights(t *testing.T) {
	f := newFixture(t, 1)
	f.ledger.weights = []agon.Weight{{UID: 1, Weight: 0}, {UID: 2, Weight: 100}, {UID: 3, Weight: 200}}
	b, err := f.Board(bg, "demo")
	must(t, err)
	if fmt.Sprint(b.Weights) != "[{2  32768} {3  65535}]" {
		t.Errorf("weights %v", b.Weights)
	}
	target, err := f.Target(bg, "demo")
	must(t, err)
	if target.UIDs[0] != 0 || target.Values[0] != 65535 {
		t.Errorf("empty seat: %+v", target)
	}
	f.cfg.OwnerUID = func(context.Context, uint16) (uint16, bool, error) { return 9, false, nil }
	if target, err = f.Target(bg, "demo"); err != nil || len(target.UIDs) != 0 {
		t.Errorf("no owner: %+v, %v", target, err)
	}
}

// How runs without a point ended is said in words, not in the kinds' codes.
func TestZeroSaysHowRunsEnded(t *testing.T) {
	f := newFixture(t, 2)
	sub := f.submit(miner1, "a = 1")
	for _, outcome := range []string{"empty", "load_error"} {
		l := f.claim(val1)
		r := scored(l, 0)
		r.Outcome = outcome
		f.result(val1, l, r)
	}
	rows, err := f.Standings(bg, "demo", 0, 10)
	must(t, err)
	if len(rows) != 1 || rows[0].Submission.ID != sub.ID || rows[0].Zero != "of its 2 runs 1 returned nothing, 1 could not be loaded" {
		t.Errorf("%+v", rows)
	}
}
