package harbor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/plain"
)

// A submission is agent.py, or a directory with agon.toml that says how it is started.
const (
	entryFile     = "agon.toml"
	maxEntry      = 64 << 10
	maxEntryFiles = 1000
	maxEntryBytes = 16 << 20
)

// entry is agon.toml.
type entry struct {
	// Command is a line for sh, run in the work directory with the instruction on
	// its standard input and, up to 100 KiB, in AGON_INSTRUCTION.
	Command string `toml:"command"`
	// Agent is an agent of Harbor's form in the place of a command: "module:Class",
	// of a published package or of the directory (agent.go).
	Agent string `toml:"agent"`
	// AgentArgs are the keyword arguments that it is made with.
	AgentArgs map[string]any `toml:"agent_args"`
	// Setup is a script for sh that runs once, before any task, where package
	// registries can be read; what it leaves below /layer is kept (layer.go).
	Setup string `toml:"setup"`
	// Env are variables for it.
	Env map[string]string `toml:"env"`
}

func parseEntry(b []byte) (*entry, error) {
	e := &entry{}
	err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(e)
	var missing *toml.StrictMissingError
	var broken *toml.DecodeError
	switch {
	case errors.As(err, &missing) && len(missing.Errors) > 0:
		return nil, fmt.Errorf("unknown field %.100q: it has command or agent, agent_args, setup and env", strings.Join(missing.Errors[0].Key(), "."))
	case errors.As(err, &broken):
		row, col := broken.Position()
		return nil, fmt.Errorf("line %d, column %d: %w", row, col, broken)
	case err != nil:
		return nil, err
	case e.Agent != "" && e.Command != "":
		return nil, errors.New("command and agent: want one of them")
	case e.Agent != "" && (len(e.Agent) > 300 || !agentPath().MatchString(e.Agent)):
		return nil, fmt.Errorf("agent %.100q: want module:Class", e.Agent)
	case e.Agent == "" && len(e.AgentArgs) > 0:
		return nil, errors.New("agent_args: no agent is named")
	case e.Agent == "" && (strings.TrimSpace(e.Command) == "" || len(e.Command) > maxCommand || strings.ContainsRune(e.Command, 0)):
		return nil, fmt.Errorf("command: want a line for sh of at most %d bytes", maxCommand)
	case len(e.Setup) > maxCommand || strings.ContainsRune(e.Setup, 0) || e.Setup != "" && strings.TrimSpace(e.Setup) == "":
		return nil, fmt.Errorf("setup: want a script for sh of at most %d bytes", maxCommand)
	case len(e.Env) > maxEnv:
		return nil, fmt.Errorf("env: %d variables, at most %d", len(e.Env), maxEnv)
	}
	for k, v := range e.Env {
		if k == "" || len(k) > 200 || strings.ContainsAny(k, "=\x00\n") || strings.ContainsRune(v, 0) || len(v) > 32<<10 {
			return nil, fmt.Errorf("env: %.80q is not a variable", k)
		}
	}
	return e, nil
}

// checkDir checks a directory with agon.toml; setups says whether the arena runs set-ups.
func checkDir(ctx context.Context, setups bool, files fs.FS) (out []agon.Finding, err error) {
	n, total := 0, int64(0)
	enough := errors.New("enough")
	err = fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			out = append(out, agon.Finding{Code: kind.FindNotRegular, Field: plain.Short(p, 120), Message: "only regular files may be entered"})
			return enough
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		n++
		if total += fi.Size(); n > maxEntryFiles || total > maxEntryBytes {
			out = append(out, agon.Finding{Code: "too_large", Field: plain.Short(p, 120), Limit: fmt.Sprintf("%d files, %d bytes", maxEntryFiles, maxEntryBytes), Message: "the directory is too large"})
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil, fmt.Errorf("walk submission: %w", err)
	}
	if len(out) > 0 {
		return out, nil
	}
	b, err := kind.ReadLimited(files, entryFile, maxEntry+1)
	if err != nil {
		return nil, err
	}
	if len(b) > maxEntry {
		return []agon.Finding{{Code: "too_large", Field: entryFile, Limit: fmt.Sprintf("%d bytes", maxEntry), Message: entryFile + " is too large"}}, nil
	}
	e, err := parseEntry(b)
	if err != nil {
		return []agon.Finding{{Code: "bad_entry", Field: entryFile, Message: plain.Short(err.Error(), 300)}}, nil
	}
	if (e.Setup != "" || e.Agent != "") && !setups {
		field := entryFile + ": setup"
		if e.Setup == "" {
			field = entryFile + ": agent"
		}
		return []agon.Finding{{Code: "no_setup", Field: field, Message: "this arena runs no set-ups: bring what the agent needs in its directory"}}, nil
	}
	return nil, nil
}

// entryOf reads the agon.toml of a submission's tree; nil if it has none.
func entryOf(dir string) (*entry, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open submission: %w", err)
	}
	defer root.Close()
	if fi, err := root.Lstat(entryFile); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxEntry {
		return nil, nil
	}
	b, err := root.ReadFile(entryFile)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join("submission", entryFile), err)
	}
	return parseEntry(b)
}
