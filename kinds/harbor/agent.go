package harbor

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox"
)

// A submission may be an agent of Harbor's own form: agon.toml names its class.
// Harbor itself is installed with it, by the set-up, and runs in the box of the
// task, where it takes the box for its environment.

// harborVersion is the release of Harbor that agents get whose set-up brings none.
const harborVersion = "0.25.0"

// harborAgent lets such an agent install itself, and plays it.
//
//go:embed box/harboragent.py
var harborAgent string

// installers answer, in the box of a set-up, the downloads that Harbor's installed
// agents call, by the same programs from their registries.
//
//go:embed all:installers
var installers embed.FS

var agentPath = lazyregexp.New(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$`)

// script is the set-up of a submission whose files stand at dir on the host; ""
// where it has none. python is the interpreter of the box.
func (e *entry) script(dir, python string) (string, error) {
	if e.Agent == "" {
		return e.Setup, nil
	}
	here, installed, err := e.brought(dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if e.Setup != "" {
		b.WriteString(e.Setup + "\n")
	}
	fmt.Fprintf(&b, "%s -c 'import harbor' 2>/dev/null || pip install --quiet --ignore-requires-python harbor==%s\n", python, harborVersion)
	if here && !installed {
		return b.String(), nil
	}
	job, err := json.Marshal(e.job("install", map[string]any{"workdir": "/tmp", "dir": agentDir}))
	if err != nil {
		return "", fmt.Errorf("encode the agent's arguments: %w", err)
	}
	b.WriteString("mkdir -p /tmp/installers\n")
	ents, err := installers.ReadDir("installers")
	if err != nil {
		return "", err
	}
	for _, f := range ents {
		text, err := installers.ReadFile("installers/" + f.Name())
		if err != nil {
			return "", err
		}
		writeHere(&b, "/tmp/installers/"+f.Name(), string(text))
	}
	b.WriteString("cd /tmp/installers && for n in apt apk yum dnf; do ln -sf apt-get $n; done && ln -sf curl wget && chmod 755 *\n")
	writeHere(&b, "/tmp/harboragent.py", harborAgent)
	writeHere(&b, "/tmp/harboragent.json", string(job))
	if here {
		b.WriteString("# with the files at $AGON_AGENT_DIR: a layer of its own\n")
	}
	fmt.Fprintf(&b, "PATH=/tmp/installers:$PATH %s -u /tmp/harboragent.py < /tmp/harboragent.json\n", python)
	return b.String(), nil
}

const hereEnd = "END_OF_WHAT_AGON_WRITES"

func writeHere(b *strings.Builder, at, text string) {
	fmt.Fprintf(b, "cat > %s <<'%s'\n%s\n%s\n", at, hereEnd, strings.TrimRight(text, "\n"), hereEnd)
}

// brought tells whether the files of a submission at dir hold an agent's module,
// and whether that may install itself. Only then does the set-up need its files;
// else the submission shares the layer of all that name the same packages. One
// that is wrongly taken for an installed agent has a layer of its own.
func (e *entry) brought(dir string) (here, installed bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, false, fmt.Errorf("open submission: %w", err)
	}
	defer root.Close()
	module, _, _ := strings.Cut(e.Agent, ":")
	first, _, _ := strings.Cut(module, ".")
	for _, p := range []string{first, first + ".py"} {
		if _, err := root.Lstat(p); err == nil {
			here = true
		}
	}
	if !here {
		return false, false, nil
	}
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(p, ".py") {
			return err
		}
		text, err := root.ReadFile(p)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte("nstalled")) {
			installed = true
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return false, false, fmt.Errorf("read submission: %w", err)
	}
	return true, installed, nil
}

// job is what the program that plays the agent reads.
func (e *entry) job(mode string, more map[string]any) map[string]any {
	args := e.AgentArgs
	if args == nil {
		args = map[string]any{}
	}
	m := map[string]any{"mode": mode, "agent": e.Agent, "args": args, "layer": setupDir}
	for k, v := range more {
		m[k] = v
	}
	return m
}

// play lets an agent of Harbor's form work once.
func (e *entry) play(ctx context.Context, box sandbox.Box, s *stage, u turn, printed *kind.Printout) (why, detail string, err error) {
	done := logsDir + "/.returned-" + u.name
	job, err := json.Marshal(e.job("run", map[string]any{
		"dir": agentDir, "done": done, "instruction": u.instruction, "workdir": s.dir,
		"servers": s.conf.Environment.Servers, "skills_dir": s.conf.Environment.Skills,
	}))
	if err != nil {
		return "", "", fmt.Errorf("encode the agent's arguments: %w", err)
	}
	x, err := box.Exec(ctx, sandbox.Cmd{
		Args: []string{s.root.Python, "-u", "-c", harborAgent}, Dir: s.dir, Stdin: bytes.NewReader(job), Stdout: printed, Stderr: printed,
		Env: append(environOfEntry(e.Env), "AGON_AGENT_DIR="+agentDir, "AGON_WORKDIR="+s.dir, "AGON_STEP="+u.name), Wall: u.wall(), Untrusted: true,
	})
	if why, detail, err := ended(x, err, printed); why != "" || err != nil {
		return why, detail, err
	}
	return returned(box, done)
}

// returned tells whether an agent came to its end by itself, which the file done says.
func returned(box sandbox.Box, done string) (why, detail string, err error) {
	switch _, err := box.ReadFile(done, 1<<10); {
	case errors.Is(err, sandbox.ErrNotExist), errors.Is(err, sandbox.ErrUnsafe):
		return agon.OutcomeExited, "the process ended before the agent had returned", nil
	case err != nil:
		return "", "", fmt.Errorf("read the agent's end: %w", err)
	}
	return "", "", nil
}
