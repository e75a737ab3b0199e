//go:build interop

package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
)

// ORO's published SDK, unmodified, works as miner, validator and reader.
// scripts/interop.sh installs it.
func TestPublishedSDK(t *testing.T) {
	python := interoptest.Python(t, "oro")
	w := newWorld(t)
	w.now = time.Now() // the SDK signs with the machine's clock
	srv := httptest.NewServer(nil)
	defer srv.Close()
	c := w.cfg
	c.Base = func() string { return srv.URL }
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	srv.Config.Handler = h
	seed := func(c byte) string { return hex.EncodeToString(bytes.Repeat([]byte{c}, 32)) }
	cmd := exec.Command(python, filepath.Join("testdata", "sdk.py"), srv.URL, seed('a'), seed('v'))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var got struct {
		Seen    [][]any
		Score   float64 `json:"race_score"`
		State   string
		Top     string
		Version string
		Race    string
		Winner  string
		Entries int
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got.Score != .75 || got.State != "ELIGIBLE" || got.Top != got.Version || got.Winner != got.Version || got.Race != "RACE_COMPLETE" || got.Entries != 1 || len(got.Seen) < 50 {
		t.Errorf("%s", out)
	}
	t.Logf("%d calls of the SDK were understood", len(got.Seen))
}
