package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/consensus"
)

// The page says all that the audit found, and what others wrote stays text.
func TestAuditPage(t *testing.T) {
	r := &consensus.Audited{
		Window: 12, Block: 99, Reads: 90, Winner: "5Winner", Pack: "abc", Cost: 0.001816, Quorum: 0.75, Weights: []agon.Weight{{UID: 2, Weight: 32768}},
		Rows:     []consensus.AuditedRow{{Validator: "5Liar", Block: 95, State: "differs", Weights: []agon.Weight{{UID: 3, Weight: 65535}}}},
		Rejected: []consensus.Rejected{{Validator: "5Forger", Reason: "<script>alert(1)</script>"}}, Alike: []consensus.Alike{{Validators: []string{"5A", "5B"}, Packs: 7}},
	}
	page, err := auditPage(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Audit of window 12", "5Winner", "$0.001816", "75 %", "50.00 %", "5Liar", "differs", "5Forger", "7 packs", "5A", "Published weights differ"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if bytes.Contains(page, []byte("<script")) {
		t.Error("what a stranger wrote became a script")
	}
	again, err := auditPage(r)
	if err != nil || !bytes.Equal(again, page) {
		t.Error("the same audit gives another page")
	}
	r.Agreed, r.Spread = true, &consensus.Spread{Mean: 0.0019, Low: 0.0017, High: 0.0021, Validators: 5}
	page, err = auditPage(r)
	for _, want := range []string{"The published weights are right.", "mean of 5 validators $0.001900, 95 % interval $0.001700 to $0.002100"} {
		if err != nil || !bytes.Contains(page, []byte(want)) {
			t.Errorf("an audit that holds lacks %q: %v", want, err)
		}
	}
}

// The served audit is worked out when somebody looks, once for all who look at the
// same time, and again after a block; while there is none the page says why.
func TestAuditIsServed(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	n, fail := 0, errors.New("the store does not <answer>")
	s := &auditServer{now: func() time.Time { return now }, o: AuditOptions{Window: 3, DiscoverOptions: DiscoverOptions{}}, audit: func(_ context.Context, o AuditOptions) (*consensus.Audited, error) {
		n++
		if fail != nil {
			return nil, fail
		}
		return &consensus.Audited{Window: o.Window, Block: uint64(n), Agreed: true}, nil
	}}
	s.o.Listen = "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	up, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- serveAudit(ctx, s, func(addr string) { up <- addr }) }()
	base := "http://" + <-up
	get := func(path string) (int, string) {
		t.Helper()
		r, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	if status, body := get("/"); status != 503 || !strings.Contains(body, "does not &lt;answer&gt;") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get("/audit.json"); status != 503 || !strings.Contains(body, `"error":`) || n != 1 {
		t.Errorf("%d %s after %d audits", status, body, n)
	}
	fail, now = nil, now.Add(auditEvery)
	if status, body := get("/"); status != 200 || !strings.Contains(body, "Audit of window 3") || !strings.Contains(body, "The published weights are right.") {
		t.Errorf("%d %s", status, body)
	}
	var doc struct {
		Window int64
		Block  int
		Agreed bool
	}
	if status, body := get("/audit.json"); status != 200 || json.Unmarshal([]byte(body), &doc) != nil || doc.Window != 3 || doc.Block != 2 || !doc.Agreed || n != 2 {
		t.Errorf("%d %s after %d audits", status, body, n)
	}
	if status, _ := get("/else"); status != 404 {
		t.Error(status)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What could not be read at an address is mended where validators are, not by an arena's rules.
func TestPublished(t *testing.T) {
	for code, want := range map[string]string{"private_address": "--allow-private", "bad_url": "https://HOST", "too_large": "from another machine"} {
		var e *agon.Error
		if err := published(&agon.Error{Code: code, Message: "x"}); !errors.As(err, &e) || !strings.Contains(e.Mend, want) || e.Message != "x" {
			t.Errorf("%s: %+v", code, e)
		}
	}
	var e *agon.Error
	if err := published(context.Canceled); !errors.Is(err, context.Canceled) || !errors.As(err, &e) || !strings.Contains(e.Mend, "from another machine") {
		t.Errorf("another error: %v", err)
	}
}
