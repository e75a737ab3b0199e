package cli_test

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/engine/translog/translogtest"
)

// logServer serves a log over HTTP, as an agon server does. fork replaces it by
// another log under the same key.
type logServer struct {
	*httptest.Server
	t   *testing.T
	key *translog.Key

	mu  sync.Mutex
	log *translog.Log // guarded by mu
	src *translogtest.Source
}

func newLogServer(t *testing.T) *logServer {
	t.Helper()
	s := &logServer{t: t}
	var err error
	if s.key, err = translog.LoadKey(filepath.Join(t.TempDir(), "k"), func(ed25519.PublicKey) string { return "agon.test/log" }); err != nil {
		t.Fatal(err)
	}
	s.fork("a", 5)
	mux := http.NewServeMux()
	send := func(w http.ResponseWriter, v any, err error) {
		if err != nil {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(422)
			v = map[string]any{"code": "bad_size", "status": 422, "detail": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /v1/server", func(w http.ResponseWriter, _ *http.Request) {
		send(w, client.Server{Name: "stub", Version: agon.Version, Audience: "agon:test", Time: time.Now(), Log: s.key.Public()}, nil)
	})
	mux.HandleFunc("GET /log/checkpoint", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s.now().Head().Text)) })
	mux.HandleFunc("GET /v1/log/consistency", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(r.URL.Query().Get("size"), 10, 64)
		if err != nil {
			send(w, nil, err)
			return
		}
		l := s.now()
		p, err := l.Consistency(n, l.Head())
		send(w, client.LogConsistency{Size: n, Hashes: translog.HashTexts(p), Checkpoint: l.Head().Text, Key: s.key.Public()}, err)
	})
	mux.HandleFunc("GET /v1/log/proof", func(w http.ResponseWriter, r *http.Request) {
		l := s.now()
		i, err := strconv.ParseInt(strings.TrimPrefix(r.URL.Query().Get("id"), "id"), 10, 64)
		if err != nil {
			send(w, nil, err)
			return
		}
		p, err := l.Inclusion(i, l.Head())
		if err != nil {
			send(w, nil, err)
			return
		}
		e, err := l.Entry(i)
		send(w, client.LogProof{Index: i, Entry: e, Hashes: translog.HashTexts(p), Checkpoint: l.Head().Text, Key: s.key.Public()}, err)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *logServer) now() *translog.Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

// fork makes a log of n leaves; word sets its leaves apart.
func (s *logServer) fork(word string, n int) {
	s.t.Helper()
	src := &translogtest.Source{}
	l, err := translog.Open(s.t.Context(), translog.Config{Storage: translog.Dir(s.t.TempDir()), Source: src, Key: s.key})
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.log, s.src = l, src
	s.mu.Unlock()
	s.grow(word, n)
}

func (s *logServer) grow(word string, n int) {
	s.t.Helper()
	for range n {
		if err := s.src.Add(translog.TypeSubmission, "id"+strconv.Itoa(s.src.Len()), map[string]string{"word": word}); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.now().Publish(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// A log that is rewritten, forked or shortened is named by each who has seen it
// before: by the reader of a checkpoint, by a witness, and by what another
// witness was shown.
func TestLogCommands(t *testing.T) {
	s, home := newLogServer(t), t.TempDir()
	run := func(want int, args ...string) (string, string) {
		t.Helper()
		a, out, errOut := goldenApp(home, s.URL, 0, nil)
		a.Env.UserConfigDir = filepath.Join(home, "conf")
		if code := a.Main(t.Context(), args); code != want {
			t.Fatalf("%v: exit code %d, want %d: %s%s", args, code, want, out, errOut)
		}
		return out.String(), errOut.String()
	}
	state := filepath.Join(home, "w1")
	out, _ := run(0, "log", "checkpoint", "--jq", ".checkpoint")
	kept := filepath.Join(home, "head.txt")
	if err := os.WriteFile(kept, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := run(0, "log", "inclusion", "id3", "--type", "operator", "--jq", ".index"); strings.TrimSpace(out) != "3" {
		t.Errorf("inclusion says %q", out)
	}
	run(0, "log", "witness", "--once", "--state", state)
	s.grow("a", 300)
	run(0, "log", "consistency", kept)
	out, _ = run(0, "log", "witness", "--once", "--state", state, "--jq", ".witnesses | length")
	if strings.TrimSpace(out) != "1" {
		t.Errorf("%q cosignatures", out)
	}
	// What this witness has seen is served to others.
	key, err := translog.LoadKey(filepath.Join(state, "witness.key"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &translog.Witness{Key: key, Memory: translog.Memory{Path: filepath.Join(home, "m.json")}, Now: time.Now}
	if _, err := w.Look(t.Context(), c, s.key.Public()); err != nil {
		t.Fatal(err)
	}
	peer := httptest.NewServer(w)
	defer peer.Close()
	run(0, "log", "witness", "--once", "--state", filepath.Join(home, "w2"), "--peer", peer.URL)

	s.fork("b", 400) // one who asks now sees another history
	for _, args := range [][]string{
		{"log", "consistency", kept},
		{"log", "witness", "--once", "--state", state},
		{"log", "witness", "--once", "--state", filepath.Join(home, "new"), "--peer", peer.URL},
	} {
		if _, errOut := run(1, args...); !strings.Contains(errOut, "contradicts itself") || strings.Count(errOut, "— agon.test/log ") != 2 {
			t.Errorf("%v says %s", args, errOut)
		}
	}
	s.fork("a", 3)
	if _, errOut := run(1, "log", "witness", "--once", "--state", state); !strings.Contains(errOut, "fewer leaves") {
		t.Errorf("a shorter log: %s", errOut)
	}
}
