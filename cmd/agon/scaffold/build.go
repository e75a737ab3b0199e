package scaffold

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
)

var moduleVersion = lazyregexp.New(`^v[0-9][A-Za-z0-9.+-]*$`)

// parseWith reads MODULE[@VERSION][=DIR].
func parseWith(s string) (w with, err error) {
	mod, dir, local := strings.Cut(s, "=")
	w.module, w.version, _ = strings.Cut(mod, "@")
	switch {
	case !modulePath().MatchString(w.module):
		return w, mistake("with", "for example: --with example.org/golf=./golf", "%.80q is not the path of a Go module", w.module)
	case w.module == module:
		return w, mistake("with", "name agon's own code with --agon", "agon is in every binary that is built")
	case w.version != "" && (local || !moduleVersion().MatchString(w.version)):
		return w, mistake("with", "for example: --with example.org/golf@v1.2.3", "%.80q: a published module has a version like v1.2.3, a directory has none", s)
	case !local:
		return w, nil
	}
	if w.dir, err = filepath.Abs(dir); err != nil {
		return w, fmt.Errorf("find module: %w", err)
	}
	is, err := moduleOf(w.dir)
	if err != nil {
		return w, err
	}
	switch {
	case dir == "" || is == "":
		return w, mistake("with", "run `go mod init "+w.module+"` there", "%q holds no go.mod, so it is not the module %s", dir, w.module)
	case is != w.module:
		return w, mistake("with", "say --with "+is+"="+dir, "the module at %s calls itself %s, not %s", dir, is, w.module)
	}
	return w, nil
}

// findGo is Go's command: a clone's own (make setup puts it there), or that of PATH.
func findGo(s Source) (string, error) {
	if s.Dir != "" {
		if own := filepath.Join(s.Dir, ".cache", "go", "bin", "go"); executable(own) {
			return own, nil
		}
	}
	at, err := exec.LookPath("go")
	if err != nil {
		return "", &agon.Error{
			Code: "no_go", Status: 503, Fault: agon.FaultValidator, Message: "agon build compiles, so it needs Go " + goVersion() + " or later, and there is no `go` on the PATH",
			Mend: "install it from https://go.dev/dl, or run `make setup` in a clone of agon",
		}
	}
	return at, nil
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}

// goVersion is the Go that this binary was built with, as go.mod says it.
func goVersion() string { return strings.TrimPrefix(strings.Fields(runtime.Version())[0], "go") }

// Build makes a binary of agon with the kinds of other modules in it.
func Build(ctx context.Context, o cli.BuildOptions) (*cli.Built, error) {
	if len(o.With) == 0 {
		return nil, mistake("with", "for example: agon build --with example.org/golf=./golf -o ./agon-golf", "name at least one module with a kind in it")
	}
	out := &cli.Built{}
	var list []with
	seen := map[string]bool{}
	for _, s := range o.With {
		w, err := parseWith(s)
		if err != nil {
			return nil, err
		}
		if seen[w.module] {
			return nil, mistake("with", "name it once", "%s is named twice", w.module)
		}
		seen[w.module] = true
		list, out.With = append(list, w), append(out.With, w.module)
	}
	file, err := filepath.Abs(o.File)
	if err != nil {
		return nil, fmt.Errorf("find output: %w", err)
	}
	if st, err := os.Stat(file); err == nil && !st.Mode().IsRegular() {
		return nil, mistake("output", "name a file", "%s is not a file", o.File)
	}
	src, err := FindSource(o.Agon)
	if err != nil {
		return nil, err
	}
	bin, err := findGo(src)
	if err != nil {
		return nil, err
	}
	work, err := tempdir.Make("build")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	mod, sum, err := src.goMod("agon.build/main", list)
	if err != nil {
		return nil, err
	}
	text, err := mainOf(list)
	if err != nil {
		return nil, err
	}
	for name, b := range map[string][]byte{"go.mod": mod, "go.sum": sum, "main.go": text} {
		if err := os.WriteFile(filepath.Join(work, name), b, 0o600); err != nil {
			return nil, fmt.Errorf("write module: %w", err)
		}
	}
	made := filepath.Join(work, "agon")
	o.Say("building agon from %s with %s", src, strings.Join(out.With, ", "))
	// -mod=mod: what the kinds need besides is found as `go get` would.
	cmd := exec.CommandContext(ctx, bin, "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", made, ".")
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GO111MODULE=on", "GOFLAGS=")
	if err := run(cmd, o.Say); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		mend := "what Go said stands above; a module's root package must have: func Kit() kit.Kit"
		if src.Dir == "" {
			mend = "what Go said stands above; if it could not get agon's own code, name a clone with --agon DIR"
		}
		return nil, &agon.Error{Code: "build_failed", Status: 422, Field: "with", Message: "go build: " + err.Error(), Mend: mend}
	}
	// The list of kinds is checked when the binary starts: a name that is taken is found now.
	if os.Getenv("GOOS") == "" && os.Getenv("GOARCH") == "" {
		if err := run(exec.CommandContext(ctx, made, "version"), o.Say); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, &agon.Error{Code: "build_failed", Status: 422, Field: "with", Message: "the binary does not start: " + err.Error(), Mend: "what it said stands above"}
		}
	}
	if err := move(made, file); err != nil {
		return nil, err
	}
	out.File, out.Agon = o.File, src.String()
	return out, nil
}

// run runs cmd and passes on what it says to stderr, line by line.
func run(cmd *exec.Cmd, say func(string, ...any)) error {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	err := cmd.Run()
	lines := bufio.NewScanner(&said)
	for n := 0; err != nil && n < maxLines && lines.Scan(); n++ {
		say("%s", lines.Text())
	}
	return err
}

// maxLines bounds what is shown of a compiler's mistakes.
const maxLines = 60

// mainOf is the program: agon over its own kinds and those of the modules.
func mainOf(list []with) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("package main\n\nimport (\n\"os\"\n\n\"" + module + "/cmd/agon/app\"\n\"" + module + "/kinds\"\n\n")
	for i, w := range list {
		fmt.Fprintf(&b, "kind%d %q\n", i, w.module)
	}
	b.WriteString(")\n\nfunc main() {\nos.Exit(app.Main(\"\", append(kinds.All(),\n")
	for i := range list {
		fmt.Fprintf(&b, "kind%d.Kit(),\n", i)
	}
	b.WriteString(")))\n}\n")
	out, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("write main: %w", err)
	}
	return out, nil
}

// move puts the binary in its place in one step. A binary that runs may be replaced.
func move(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open binary: %w", err)
	}
	defer in.Close()
	f, err := os.CreateTemp(filepath.Dir(to), ".agon-build-*")
	if err != nil {
		return fmt.Errorf("write binary: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, in)
	if err := errors.Join(err, f.Chmod(0o755), f.Close()); err != nil {
		return fmt.Errorf("write binary: %w", err)
	}
	if err := os.Rename(f.Name(), to); err != nil {
		return fmt.Errorf("write binary: %w", err)
	}
	return nil
}
