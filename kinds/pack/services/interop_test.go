//go:build interop

package services

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
)

// drawn are the ids and times that each server makes by itself.
var drawn = regexp.MustCompile(`"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"|"20\d\d-\d\d-\d\dT[0-9:]+(\.\d+)?"`)

// TestMockServices asks the field's own stateful services (trajectory-sandbox) and
// these the same random questions, which change what both hold. No answer and no
// state may differ but for ids and times that each draws.
func TestMockServices(t *testing.T) {
	dir := os.Getenv("AGON_STRANGERS")
	if dir == "" {
		t.Skip("NOT RUN: AGON_STRANGERS names no folder with checkouts of others' repositories (trajectory-sandbox)")
	}
	repo, err := filepath.Abs(filepath.Join(dir, "trajectory-sandbox"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(repo, "docker", "mock_services", "server.py")); err != nil {
		interoptest.Absent(t, "AGON_STRANGERS/trajectory-sandbox (github.com/trajectoryRL/trajectory-sandbox)")
	}
	their := theirs(t, repo, interoptest.Python(t, "clawbench"))
	srv := httptest.NewServer(New(Config{}).Handler())
	defer srv.Close()
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("AGON_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("seed %d (AGON_SEED repeats it)", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	differ, count := 0, 0
	for i := range 3000 {
		q := [3]string{"POST", "/load_fixtures", fixtures}
		if i%100 != 0 {
			q = question(rng)
		}
		status, want := asked(t, their, q)
		got, have := asked(t, srv.URL, q)
		if count++; status != got || !reflect.DeepEqual(want, have) {
			if differ++; differ <= 20 {
				t.Errorf("%v\n theirs %d %.600v\n ours   %d %.600v", q, status, want, got, have)
			}
		}
	}
	t.Logf("%d of %d answers differ", differ, count)
}

func question(rng *rand.Rand) [3]string {
	one := func(of ...string) string { return of[rng.IntN(len(of))] }
	body := func() string {
		v := map[string]any{}
		for _, k := range []string{"from", "subject", "body", "text", "user", "title", "status", "summary", "start", "emoji"} {
			if rng.IntN(3) == 0 {
				v[k] = []any{"x", "Grüße", "", 3, 1.5, true, nil, []any{"a"}, map[string]any{"b": 1}}[rng.IntN(9)]
			}
		}
		if rng.IntN(4) == 0 {
			v["to"] = []string{"a@x.example"}
		}
		if rng.IntN(6) == 0 {
			v["id"] = one("t1", "t7", "c1", "own")
		}
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	repo := "/api/v1/repos/" + one("o", "x") + "/" + one("r", "y")
	switch rng.IntN(12) {
	case 0:
		return [3]string{"GET", one("/state", "/state", "/api/v2/messages", "/slack/channels", "/calendar/events"), ""}
	case 1:
		return [3]string{"POST", "/api/v2/messages", body()}
	case 2:
		return [3]string{"DELETE", "/api/v1/messages/" + one("e1", "e2", "none", "é"), ""}
	case 3:
		return [3]string{"GET", "/slack/channels/" + one("general", "incidents", "none") + "/messages", ""}
	case 4:
		return [3]string{"POST", "/slack/channels/" + one("general", "incidents", "none") + "/messages", body()}
	case 5:
		return [3]string{"POST", one("/slack/reactions", "/notion/databases/db/query", "/notion/pages"), body()}
	case 6:
		return [3]string{"PATCH", "/notion/pages/" + one("t1", "t2", "own", "none"), body()}
	case 7:
		return [3]string{"POST", "/calendar/events", body()}
	case 8:
		return [3]string{"DELETE", "/calendar/events/" + one("c1", "own", "none"), ""}
	case 9:
		return [3]string{"GET", repo + one("/issues", "/issues/42", "/issues/43", "/pulls", "/pulls/891", "/pulls/1", "/git/refs", "/commits", "/contents/src/main.py", "/contents/none"), ""}
	case 10:
		return [3]string{"POST", repo + "/issues/" + one("42", "7") + "/comments", body()}
	}
	return [3]string{one("POST", "GET"), one("/reset", "/nowhere", "/calendar"), ""}
}

func asked(t *testing.T, base string, q [3]string) (status int, answer any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), q[0], base+q[1], strings.NewReader(q[2]))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(drawn.ReplaceAll(b, []byte(`"DRAWN"`)), &answer); err != nil {
		return r.StatusCode, fmt.Sprintf("%q", b)
	}
	return r.StatusCode, answer
}

func theirs(t *testing.T, repo, python string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	cmd := exec.Command(python, "-m", "uvicorn", "mock_services.server:app", "--host", "127.0.0.1", "--port", port, "--log-level", "critical")
	cmd.Dir = filepath.Join(repo, "docker")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-gone })
	base := "http://127.0.0.1:" + port
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if r, err := http.Get(base + "/health"); err == nil {
			_ = r.Body.Close()
			return base
		}
	}
	t.Fatal("their server did not start within a minute")
	return ""
}
