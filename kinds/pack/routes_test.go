package pack_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/data"
	policy "github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

// open serves one arena until the test ends.
func open(ctx context.Context, t *testing.T, arena string) *kit.Server {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "arena.toml")
	if err := os.WriteFile(path, []byte(arena), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(filepath.Join(dir, "data"))
	o.Arenas = []string{path}
	s, stop, err := roles.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s
}

// A server as it runs answers TrajectoryRL's readers and takes a pack of its
// miners over HTTP, beside all the other routes.
func TestTrajrlServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := open(ctx, t, "id = \"demo-other\"\nkind = \"coding\"\ntitle = \"t\"\nnetuid = 1\nsets = [\"small\"]\n")
	call := func(method, path string, body any) (int, map[string]any) {
		t.Helper()
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(ctx, method, s.URL()+path, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		var out map[string]any
		_ = json.NewDecoder(a.Body).Decode(&out) // not every answer is JSON: nil then
		return a.StatusCode, out
	}
	if status, _ := call("GET", "/api/validators", nil); status != 404 {
		t.Errorf("without an arena of the kind: %d", status)
	}
	const netuid = 11
	s = open(ctx, t, "id = \"demo-pack\"\nkind = \"pack\"\ntitle = \"t\"\nnetuid = 11\nsets = [\"office\"]\nincentive = \"cost_takeover\"\n")
	miner, err := auth.KeyFromSeed(auth.Sr25519, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	uid, err := s.Ledger.Register(ctx, netuid, miner.SS58(), miner.SS58())
	if err != nil {
		t.Fatal(err)
	}
	files, err := kit.SampleFiles(data.FS, "baseline")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Unix()
	sig, err := miner.Sign(signin.Message("trajectoryrl-miner-submit", miner.SS58(), fmt.Sprint(at)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Read(files[play.File])
	if err != nil {
		t.Fatal(err)
	}
	hash := p.Hash
	status, got := call("POST", "/api/v2/miners/submit", map[string]any{
		"miner_hotkey": miner.SS58(), "timestamp": at, "signature": "0x" + hex.EncodeToString(sig), "pack_hash": hash, "pack_content": string(files[play.File]),
	})
	if status != 200 || got["pack_url"] != s.URL()+"/api/packs/"+hash+".json" {
		t.Fatalf("submit: %d %v", status, got)
	}
	status, got = call("GET", "/api/queue", nil)
	q, _ := got["queue"].([]any)
	if status != 200 || len(q) != 1 || q[0].(map[string]any)["pack_hash"] != hash || q[0].(map[string]any)["miner_uid"] != float64(uid) {
		t.Errorf("queue: %d %v", status, got)
	}
	for _, path := range []string{"/api/validators", "/api/miners", "/api/miners/" + miner.SS58(), "/api/challenge/state", "/api/eval-logs", "/api/skills", "/api/stats", "/v1/arenas"} {
		if status, got := call("GET", path, nil); status != 200 {
			t.Errorf("%s: %d %v", path, status, got)
		}
	}
}
