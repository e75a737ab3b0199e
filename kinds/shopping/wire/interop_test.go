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

// sdkSaw is what a script of an SDK prints.
type sdkSaw struct {
	Seen    [][]any
	Score   float64 `json:"race_score"`
	State   string
	Top     string
	Version string
	Race    string
	Winner  string
	Entries int
}

// drive lets a script of testdata work on w, on the machine's clock: SDKs sign with it.
func (w *world) drive(env, script string, args ...string) {
	w.t.Helper()
	python := interoptest.Python(w.t, env)
	w.now = time.Now()
	srv := httptest.NewServer(nil)
	defer srv.Close()
	c := w.cfg
	c.Base = func() string { return srv.URL }
	h, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	srv.Config.Handler = h
	seed := func(c byte) string { return hex.EncodeToString(bytes.Repeat([]byte{c}, 32)) }
	cmd := exec.Command(python, append([]string{filepath.Join("testdata", script), srv.URL, seed('a'), seed('v')}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("%v\n%s", err, errs.String())
	}
	var got sdkSaw
	if err := json.Unmarshal(out, &got); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	if got.Score != .75 || got.State != "ELIGIBLE" || got.Top != got.Version || got.Winner != got.Version || got.Race != "RACE_COMPLETE" || got.Entries != 1 || len(got.Seen) < 48 {
		w.t.Errorf("%s", out)
	}
	w.t.Logf("%d calls of the SDK were understood", len(got.Seen))
}

// ORO's published SDK, unmodified, works as miner, validator and reader.
// scripts/interop.sh installs it.
func TestPublishedSDK(t *testing.T) { newWorld(t).drive("oro", "sdk.py") }

// So do its newest SDK and command line, which enters nothing without a credential and
// reads a claim's token with its end.
func TestNewestSDK(t *testing.T) {
	w, _ := keyed(t)
	w.drive("oro7", "sdk7.py", t.TempDir())
}
