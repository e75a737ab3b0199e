package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/agent"
)

// An operator makes an authority and certificates; an agent on a port then signs for
// the machine that its list names, and for no other.
func TestKeyAgentPort(t *testing.T) {
	host, _, errOut := newApp(t)
	dir := host.Env.Dir
	run := func(args ...string) {
		t.Helper()
		if code := host.Main(t.Context(), args); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, errOut)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	host.IO.In = strings.NewReader("//Alice")
	run("key", "import", "-")
	run("cert", "authority", "fleet", "--dir", file("ca"))
	run("cert", "issue", "agent", "--dir", file("ca"), "--out", dir, "--host", "127.0.0.1")
	run("cert", "issue", "val-1", "--dir", file("ca"), "--out", dir)
	run("cert", "issue", "val-2", "--dir", file("ca"), "--out", dir)
	for _, p := range []string{"ca/ca-key.pem", "agent-key.pem"} {
		if info, err := os.Stat(file(p)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", p, info, err)
		}
	}
	for _, args := range [][]string{{"cert", "authority", "--dir", file("ca")}, {"cert", "issue", "val-1", "--dir", file("ca"), "--out", dir}} {
		if code := host.Main(t.Context(), args); code != CodeConflict {
			t.Errorf("%v over files that are there: exit %d: %s", args, code, errOut)
		}
	}
	if err := os.WriteFile(file("clients.toml"), []byte("[[client]]\nname = 'val-1'\nallow = ['text']\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	keeper, _, _ := newApp(t)
	keeper.Env = host.Env
	said := &signal{text: "keys: 1;", ready: make(chan struct{})}
	keeper.IO.Err = said
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	exit := make(chan int, 1)
	go func() {
		exit <- keeper.Main(ctx, []string{
			"key", "agent", "--listen", "127.0.0.1:0", "--tls-cert", file("agent.pem"), "--tls-key", file("agent-key.pem"),
			"--client-ca", file("ca/ca.pem"), "--clients", file("clients.toml"), "--audit", file("signed.jsonl"),
		})
	}()
	select {
	case <-said.ready:
	case code := <-exit:
		t.Fatalf("agent ended with %d: %s", code, said.String())
	}
	at := regexp.MustCompile(`tls://[0-9.:]+`).FindString(said.String())
	sign := func(name string) (int, string, string) {
		daemon, out, errOut := newApp(t)
		daemon.Env.Getenv = func(s string) string {
			return map[string]string{agent.EnvSocket: at, "AGON_CA": file("ca/ca.pem"), "AGON_CLIENT_CERT": file(name + ".pem")}[s]
		}
		code := daemon.Main(t.Context(), []string{"key", "sign", "hello", "-o", "json", "--client-key", file(name + "-key.pem")})
		return code, out.String(), errOut.String()
	}
	code, out, e := sign("val-1")
	var got struct{ SS58, Signature string }
	if code != 0 || json.Unmarshal([]byte(out), &got) != nil || got.SS58 != alice {
		t.Fatalf("exit %d: %s %s", code, out, e)
	}
	if sig, err := auth.ParseSignature(got.Signature); err != nil || auth.Verify(alice, []byte("hello"), sig) != nil {
		t.Errorf("signature %s: %v", got.Signature, err)
	}
	if code, _, e := sign("val-2"); code == 0 || !strings.Contains(e, "val-2 is not among the agent's clients") {
		t.Errorf("another machine: exit %d: %s", code, e)
	}
	cancel()
	if code := <-exit; code != 0 {
		t.Errorf("agent ended with %d: %s", code, said.String())
	}
	audit, err := os.ReadFile(file("signed.jsonl"))
	if err != nil || strings.Count(string(audit), "\n") != 1 || !strings.Contains(string(audit), `"who":"client val-1"`) {
		t.Errorf("audit: %s %v", audit, err)
	}
}

func TestKeyAgentPortWants(t *testing.T) {
	app, _, errOut := newApp(t)
	app.IO.In = strings.NewReader("//Alice")
	if code := app.Main(t.Context(), []string{"key", "import", "-"}); code != 0 {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	clients := filepath.Join(app.Env.Dir, "clients.toml")
	if err := os.WriteFile(clients, []byte("[[client]]\nname = 'val-1'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--listen without --clients":      {"--listen", "127.0.0.1:0"},
		"exclude each other":              {"--listen", "127.0.0.1:0", "--socket", "x"},
		"signs only what is listed":       {"--listen", "127.0.0.1:0", "--clients", clients},
		"asks each caller for":            {"--listen", "127.0.0.1:0", "--clients", clients, "--allow", "text"},
		"are those of a port":             {"--clients", clients},
		"certificates of clients":         {"--listen", "127.0.0.1:0", "--clients", clients, "--allow", "text", "--client-ca", clients},
		"its key is missing":              {"--listen", "127.0.0.1:0", "--clients", clients, "--allow", "text", "--tls-cert", clients},
		"no such file or directory":       {"--listen", "127.0.0.1:0", "--clients", clients + "x", "--allow", "text"},
		"name clients in the file":        {"--listen", "127.0.0.1:0", "--uid", "5"},
		"give a name without / that begi": nil,
	} {
		line := append([]string{"key", "agent"}, args...)
		if args == nil {
			line = []string{"cert", "issue", "../x"}
		}
		fresh, _, errOut := newApp(t)
		fresh.Env = app.Env
		if code := fresh.Main(t.Context(), line); code == 0 || !strings.Contains(errOut.String(), want) {
			t.Errorf("%v: exit %d: %s, want %q", line, code, errOut, want)
		}
	}
}
