//go:build interop

package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

// args is one request to a peer, or its answer.
type args map[string]any

// peer is one Python environment that answers over JSON lines.
type peer struct {
	name  string
	mu    sync.Mutex
	in    *json.Encoder
	lines *bufio.Reader
}

// start runs peer.py in the environment.
func start(t *testing.T, name string) *peer {
	t.Helper()
	cmd := exec.Command(interoptest.Python(t, name), "peer.py")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
	var errs strings.Builder
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, errs.String())
		}
	})
	return &peer{name: name, in: json.NewEncoder(in), lines: bufio.NewReaderSize(out, 1<<20)}
}

// try asks and returns the answer, or the peer's error.
func (p *peer) try(t *testing.T, op string, a args) (args, string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	request := args{"op": op}
	for k, v := range a {
		request[k] = v
	}
	if err := p.in.Encode(request); err != nil {
		t.Fatalf("%s: %s: %v", p.name, op, err)
	}
	line, err := p.lines.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s: %s: %v", p.name, op, err)
	}
	var answer args
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatalf("%s: %s: %v", p.name, op, err)
	}
	if text, ok := answer["error"].(string); ok {
		return nil, text
	}
	return answer, ""
}

// ask is try that must succeed.
func (p *peer) ask(t *testing.T, op string, a args) args {
	t.Helper()
	answer, problem := p.try(t, op, a)
	if strings.HasPrefix(problem, "ModuleNotFoundError") || strings.HasPrefix(problem, "ImportError") {
		interoptest.Absent(t, fmt.Sprintf("%s needs in %s: %s", op, p.name, problem))
	}
	if problem != "" {
		t.Fatalf("%s: %s: %s", p.name, op, problem)
	}
	return answer
}

func (a args) text(name string) string {
	s, _ := a[name].(string)
	return s
}
