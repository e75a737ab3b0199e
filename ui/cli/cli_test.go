package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

func TestExitCode(t *testing.T) {
	coded := func(status int, fault agon.Fault) error { return &agon.Error{Code: "x", Status: status, Fault: fault} }
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, 0},
		{"plain", errors.New("x"), 1},
		{"usage", output.Usage("f", "m", "x"), 2},
		{"bad config", &agon.Error{Code: "bad_config", Status: 400}, 2},
		{"unknown rule", fmt.Errorf("%w %q", calc.ErrUnknownRule, "x"), 2},
		{"400", coded(400, ""), 2},
		{"partly", &Exit{Code: CodePartly}, 3},
		{"401", coded(401, ""), 4},
		{"403", coded(403, ""), 4},
		{"no key", fmt.Errorf("read: %w", auth.ErrKeyfileMissing), 4},
		{"open key", auth.ErrKeyfileOpen, 4},
		{"404", coded(404, ""), 5},
		{"no file", fmt.Errorf("read: %w", fs.ErrNotExist), 5},
		{"409", coded(409, ""), 6},
		{"412", coded(412, ""), 6},
		{"key exists", auth.ErrKeyfileExists, 6},
		{"413", coded(413, ""), 7},
		{"422", coded(422, agon.FaultAgent), 7},
		{"429", coded(429, ""), 7},
		{"pending", &agon.Error{Code: "pending"}, 8},
		{"500", coded(500, ""), 9},
		{"503", fmt.Errorf("wrapped: %w", coded(503, agon.FaultProvider)), 9},
		{"fault of ours without a status", coded(0, agon.FaultTask), 9},
		{"fault of the agent without a status", coded(0, agon.FaultAgent), 1},
		{"interrupted", fmt.Errorf("x: %w", context.Canceled), 130},
		{"an exit wins", &Exit{Code: 7, Err: coded(500, "")}, 7},
	}
	for _, tt := range tests {
		if got := ExitCode(tt.err); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func newApp(t *testing.T) (*App, *iostreams.Buffer, *iostreams.Buffer) {
	t.Helper()
	s, out, errOut := iostreams.Test("")
	home := t.TempDir()
	return &App{IO: s, Now: time.Now, Env: config.Env{Getenv: func(string) string { return "" }, Dir: home, Home: home, UserCacheDir: home}}, out, errOut
}

// TestEveryCommandHelps: each has a short text, an example that names it, and no flag without words.
func TestEveryCommandHelps(t *testing.T) {
	a, _, _ := newApp(t)
	n := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		n++
		if c.Name() == "help" {
			return
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Example == "" || c.RunE == nil {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: the example does not show it: %q", c.CommandPath(), c.Example)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root := a.root()
	walk(root)
	if n < 40 {
		t.Errorf("only %d commands", n)
	}
	ref := Reference(root)
	for _, want := range []string{"## agon submission submit", "- `--wait duration`" /* what pflag calls it */} {
		if !strings.Contains(ref, strings.TrimSuffix(want, " duration`")) {
			t.Errorf("the reference lacks %q", want)
		}
	}
}

func TestNounsList(t *testing.T) {
	a, _, _ := newApp(t)
	root := a.root()
	for _, noun := range []string{"arena", "submission", "run", "key", "task"} {
		c, _, err := root.Find([]string{noun, "ls"})
		if err != nil || c.Name() != "list" {
			t.Errorf("%s ls: %v, %v", noun, c.Name(), err)
		}
	}
}

func TestErrorsAreDocumentsOnlyWhenAsked(t *testing.T) {
	for _, tt := range []struct {
		args []string
		json bool
	}{
		{[]string{"nosuch"}, false},
		{[]string{"-o", "json", "nosuch"}, true},
		{[]string{"nosuch", "-ojsonl"}, true},
		{[]string{"--output=json", "arena", "view"}, true},
		{[]string{"-o", "table", "nosuch"}, false},
		{[]string{"arena", "view", "--jq", ".", "a", "b"}, false},
		{[]string{"config", "view", "--jq", "error(\"x\")"}, true},
		{[]string{"nosuch", "--", "-ojson"}, false},
	} {
		a, _, errOut := newApp(t)
		if code := a.Main(t.Context(), tt.args); code == 0 {
			t.Errorf("%q: exit code 0", tt.args)
		}
		if got := json.Valid([]byte(errOut.String())); got != tt.json {
			t.Errorf("%q: stderr %q", tt.args, errOut.String())
		}
	}
}

func TestInterruptedWhateverBroke(t *testing.T) {
	a, _, errOut := newApp(t)
	ctx, cancel := context.WithCancel(t.Context())
	a.Services.Host.Setup = func(context.Context, SetupOptions) error {
		cancel()
		return errors.New("signal: killed")
	}
	if code := a.Main(ctx, []string{"setup"}); code != CodeInterrupted {
		t.Errorf("exit code %d, stderr %q", code, errOut.String())
	}
}

func TestEndOfService(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("port taken")
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{done, nil, 0}, {done, context.Canceled, 0}, {done, fmt.Errorf("stop: %w", context.Canceled), 0}, {done, broken, 1}, {t.Context(), broken, 1}, {t.Context(), nil, 0},
	} {
		if got := ExitCode(EndOfService(tt.ctx, tt.err)); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestWriteForeign(t *testing.T) {
	tests := []struct {
		name  string
		files []client.File
		ok    bool
	}{
		{"one", []client.File{{Path: "agent.py", Content: []byte("x")}}, true},
		{"tree", []client.File{{Path: "a/b/c.txt", Content: nil}, {Path: "a/d", Content: nil}}, true},
		{"up", []client.File{{Path: "ok"}, {Path: "../x"}}, false},
		{"absolute", []client.File{{Path: "/etc/passwd"}}, false},
		{"empty", []client.File{{Path: ""}}, false},
		{"dot", []client.File{{Path: "."}}, false},
		{"hidden", []client.File{{Path: ".git/hooks/post-checkout"}}, false},
		{"hidden below", []client.File{{Path: "a/.ssh/x"}}, false},
		{"control", []client.File{{Path: "a\x1b[2Jb"}}, false},
		{"newline", []client.File{{Path: "a\nb"}}, false},
		{"bidi", []client.File{{Path: "a\u202eyp.tnega"}}, false},
		{"backslash", []client.File{{Path: `..\x`}}, false},
		{"twice", []client.File{{Path: "a"}, {Path: "a"}}, false},
		{"twice but for case", []client.File{{Path: "a"}, {Path: "A"}}, false},
		{"long", []client.File{{Path: strings.Repeat("a", 256)}}, false},
		{"file and directory", []client.File{{Path: "a"}, {Path: "a/b"}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "new")
			err := writeForeign(dir, tt.files)
			if (err == nil) != tt.ok {
				t.Fatalf("error %v", err)
			}
			entries, rerr := os.ReadDir(top)
			if rerr != nil {
				t.Fatal(rerr)
			}
			if len(entries) > 1 {
				t.Errorf("wrote beside the directory: %v", entries)
			}
			if !tt.ok {
				return
			}
			for _, f := range tt.files {
				st, err := os.Stat(filepath.Join(dir, f.Path))
				if err != nil || st.Mode().Perm()&0o111 != 0 {
					t.Errorf("%s: %v, mode %v", f.Path, err, st.Mode())
				}
			}
		})
	}
	// A link that waits in the place of the new directory is not written through.
	top := t.TempDir()
	target := filepath.Join(top, "target")
	if err := os.MkdirAll(filepath.Join(target, "keep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	if err := writeForeign(filepath.Join(top, "link"), []client.File{{Path: "a"}}); err == nil {
		t.Error("wrote into a directory that is not empty")
	}
}

func TestReadEntry(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("folder/a.md", "a")
	write("folder/sub/b.md", "b")
	write("folder/.git/config", "x")
	write("folder/__pycache__/c.pyc", "x")
	write("big/x", strings.Repeat("x", maxEntryBytes+1))
	for i := range maxEntryFiles + 1 {
		write(fmt.Sprintf("many/%d", i), "")
	}
	write("linked/real", "x")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "linked", "z")); err != nil {
		t.Fatal(err)
	}
	files, err := readEntry(filepath.Join(dir, "folder"), "")
	if err != nil || len(files) != 2 || files[0].Path != "a.md" || files[1].Path != "sub/b.md" {
		t.Errorf("folder: %v, %+v", err, files)
	}
	if files, err := readEntry(filepath.Join(dir, "folder", "a.md"), "agent.py"); err != nil || len(files) != 1 || files[0].Path != "agent.py" || string(files[0].Content) != "a" {
		t.Errorf("file: %v, %+v", err, files)
	}
	for name, want := range map[string]int{"big": 7, "big/x": 7, "many": 7, "linked": 7, "nosuch": 5} {
		if _, err := readEntry(filepath.Join(dir, name), "x"); ExitCode(err) != want {
			t.Errorf("%s: %v, code %d", name, err, ExitCode(err))
		}
	}
	for file, want := range map[string]string{"/x/mine/agent.py": "mine", "/x/tuned.py": "tuned", "/x/e\x1b[2Jvil.py": "evil"} {
		if got := defaultName(file); got != want {
			t.Errorf("defaultName(%q) = %q, want %q", file, got, want)
		}
	}
}

func TestClockCheck(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for off, want := range map[time.Duration]string{0: CheckOK, 9 * time.Second: CheckOK, -11 * time.Second: CheckWarn, time.Minute: CheckFail, -time.Hour: CheckFail} {
		if got := clockCheck(now, now.Add(off), now.Add(off)); got.Status != want {
			t.Errorf("%v: %+v, want %s", off, got, want)
		}
	}
	// A slow answer says little of a clock.
	if got := clockCheck(now.Add(30*time.Second), now, now.Add(30*time.Second)); got.Status != CheckOK {
		t.Errorf("a slow answer: %+v", got)
	}
	if got := clockCheck(now.Add(42*time.Second), now, now.Add(30*time.Second)); got.Status != CheckWarn {
		t.Errorf("a slow answer of a clock that is wrong: %+v", got)
	}
}

func TestCheckResetRefusesMountsAndUse(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, MarkerFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := checkReset(dir, "/home/x", "/")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := checkReset(dir, "/home/x", "/"); ExitCode(err) != CodeConflict {
		t.Errorf("in use: %v", err)
	}
}

func TestMountedBelow(t *testing.T) {
	const info = `22 1 0:20 / /proc rw - proc proc rw
30 22 0:21 / /data rw - ext4 /dev/sda rw
31 30 0:22 / /data/boxes/a\040b rw - overlay overlay rw
short line
`
	for dir, want := range map[string]string{"/data": "/data/boxes/a b", "/dat": "", "/data/boxes": "/data/boxes/a b", "/data/boxes/a b": "", "/": "/proc", "/other": ""} {
		if got := mountedBelow(dir, info); got != want {
			t.Errorf("below %s: %q, want %q", dir, got, want)
		}
	}
}

func TestSafeLines(t *testing.T) {
	var b strings.Builder
	s := &safeLines{w: &b}
	for _, c := range []byte("{\"a\":\"\u202e\u009b\"}\nrest") { // byte by byte: runes are cut in two
		if _, err := s.Write([]byte{c}); err != nil {
			t.Fatal(err)
		}
	}
	if b.String() != `{"a":"\u202e\u009b"}`+"\n" {
		t.Errorf("%q", b.String())
	}
}

func FuzzEventLine(f *testing.F) {
	for _, typ := range []string{agon.EventPhase, agon.EventBox, agon.EventModel, agon.EventRefused, agon.EventOutput, agon.EventScore, agon.EventNote, "new"} {
		f.Add(typ, []byte(`{"text":"a\u001b[2Jb","stream":"stdout","receipt":{"model":"m\u202e"},"exit":{"code":1}}`))
		f.Add(typ, []byte(`[1]`))
	}
	f.Fuzz(func(t *testing.T, typ string, data []byte) {
		e := agon.Event{Type: typ, Data: data}
		for _, line := range []string{EventLine(e), EventLine(withhold(e))} {
			if strings.ContainsFunc(line, unicode.IsControl) || plain.Line(line) != line {
				t.Fatalf("%q reaches the terminal", line)
			}
		}
		if typ == agon.EventOutput && json.Valid(data) {
			if w := withhold(e); !json.Valid(w.Data) {
				t.Fatalf("withhold: %q", w.Data)
			}
		}
	})
}
