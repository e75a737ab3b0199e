package play

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/research/surface"
)

// Programs of an isolated benchmark: what they get, what they cannot hand on,
// and what the socket refuses.
func TestPrograms(t *testing.T) {
	w := newWorld(t)
	w.task(edit(oneTask, "baseline", "isolate = true\nbaseline"), with(oneBase, "hidden/a.txt", "answer\n"))
	p, done, err := w.kind.player(t.Context(), w, w.run())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	r, err := p.programs(t.Context(), &side{name: "x", changes: &surface.Result{OK: true}}, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.stop() }()
	post := func(token, body string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/run", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(b)
	}
	run := func(stdin string, timeout float64, script string) (programReply, string, string) {
		t.Helper()
		head, _ := json.Marshal(programRequest{Args: []string{"sh", "-c", script}, Env: map[string]string{"X": "1"}, Timeout: timeout})
		resp, body := post(r.token, string(head)+"\n"+stdin)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		in := bufio.NewReader(strings.NewReader(body))
		line, _ := in.ReadBytes('\n')
		var x programReply
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(in)
		if len(rest) != x.Stdout+x.Stderr {
			t.Fatalf("%d bytes, %+v", len(rest), x)
		}
		return x, string(rest[:x.Stdout]), string(rest[x.Stdout:])
	}
	big := string(bytes.Repeat([]byte("0123456789abcdef"), 100_000))
	if x, out, _ := run(big, 0, "cat"); x.Code != 0 || out != big || x.Wall <= 0 {
		t.Errorf("%+v, %d bytes", x, len(out))
	}
	if x, out, errs := run("", 0, "echo $X; ls /agon/hidden >&2; echo stash > /tmp/stash; exit 3"); x.Code != 3 || out != "1\n" || !strings.Contains(errs, "hidden") {
		t.Errorf("%+v %q %q", x, out, errs)
	}
	if x, out, _ := run("", 0, "cat /tmp/stash; echo x > /workspace/submission/score.txt"); out != "" || x.Code != 0 && x.Code != 1 {
		t.Errorf("the next program found %q", out)
	}
	if _, out, _ := run("", 0, "cat submission/score.txt"); out != "1.0\n" {
		t.Errorf("the workspace was changed for the next program: %q", out)
	}
	if x, _, _ := run("", 0.2, "sleep 30"); x.Limit != "wall" {
		t.Errorf("%+v", x)
	}
	for name, c := range map[string]struct {
		token, body string
		status      int
	}{
		"another token": {"x", `{"args":["true"]}` + "\n", 403},
		"no line":       {r.token, `{"args":["true"]}`, 400},
		"no args":       {r.token, "{}\n", 400},
		"not JSON":      {r.token, "[1]\n", 400},
		"negative time": {r.token, `{"args":["true"],"timeout":-1}` + "\n", 400},
		"long line":     {r.token, `{"args":["` + strings.Repeat("x", maxProgramHead) + `"]}` + "\n", 400},
		"bad variable":  {r.token, `{"args":["true"],"env":{"A=B":"1"}}` + "\n", 503},
	} {
		if resp, body := post(c.token, c.body); resp.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", name, resp.StatusCode, body, c.status)
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if err := r.stop(); err != nil {
		t.Error("a second stop:", err)
	}
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 blob " + strings.Repeat("a", 40) + "      3\ta/b\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseTree(b)
		if err != nil {
			return
		}
		for _, x := range e {
			if strings.HasPrefix(x.name, "/") || strings.Contains("/"+x.name+"/", "/../") {
				t.Fatalf("%q", x.name)
			}
		}
		treeID(e)
	})
}
