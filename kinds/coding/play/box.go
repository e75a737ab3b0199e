package play

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/sandbox"
)

// Paths inside boxes.
const (
	repoDir    = "/repo"
	scratchDir = "/sandbox"
	toolsDir   = "/agon"
	resultFile = scratchDir + "/.agon-result"
)

// Ports of the gateway inside the agent's box, and the names that older
// contracts use for it (spec/ridges.md 2.1). Every name resolves to 127.0.0.1.
var (
	doorListen = []string{"127.0.0.1:8000", "127.0.0.1:80"}
	doorHosts  = []string{"sandbox-proxy", "ridges-ai-sandbox-proxy", "proxy"}
)

// gitEnv keeps git from reading anything but the tree at hand: no user or
// system configuration, no questions, no repository above the directory.
// safe.directory is given because the tree's owner may be another user.
var gitEnv = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_CEILING_DIRECTORIES=/",
	"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
}

var baseEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0"}

// exec runs one command and reports a non-zero exit as not ok. The error is the driver's.
func exec(ctx context.Context, b sandbox.Box, cmd sandbox.Cmd) (out string, x sandbox.Exit, err error) {
	var buf tail
	buf.limit = 64 << 10
	cmd.Stdout, cmd.Stderr = &buf, &buf
	x, err = b.Exec(ctx, cmd)
	return buf.String(), x, err
}

// basePath is the host directory of a task's tree at the bug.
func basePath(t *task.Task) (string, error) { return under(t, t.Config.Agon.Base) }

func under(t *task.Task, rel string) (string, error) {
	if !filepath.IsLocal(rel) {
		return "", fmt.Errorf("task %s: path %q leaves the task", t.Key, rel)
	}
	return filepath.Join(t.Dir, filepath.FromSlash(rel)), nil
}

// seconds rounds a limit up to whole seconds for the agent's eyes.
func seconds(ms int64) int64 { return int64(math.Ceil(float64(ms) / 1000)) }

// agentLimits are the policy's limits, lowered by what the task says.
func agentLimits(l agon.Limits, t *task.Task) agon.Limits {
	lower := func(p *int64, v int64) {
		if v > 0 && (*p == 0 || v < *p) {
			*p = v
		}
	}
	lower(&l.WallMS, int64(t.Config.Agent.TimeoutSec*1000))
	if l.WallMS == 0 {
		l.WallMS = sandbox.DefaultLimits.WallMS
	}
	return l
}

// theTask returns the only task of a coding run.
func theTask(ctx context.Context, env kind.Env, r agon.RunSpec) (*task.Task, error) {
	if len(r.Tasks) != 1 {
		return nil, fmt.Errorf("coding: a run has one task, this one has %d", len(r.Tasks))
	}
	return env.Task(ctx, r.Tasks[0])
}

// tail keeps the last limit bytes written to it.
type tail struct {
	limit   int
	buf     []byte
	dropped int64
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.limit {
		cut := len(t.buf) - t.limit
		t.dropped += int64(cut)
		t.buf = append(t.buf[:0], t.buf[cut:]...)
	}
	return len(p), nil
}

// bytes returns what is kept, cut to the limit, and how many bytes are not.
func (t *tail) bytes() ([]byte, int64) {
	if cut := len(t.buf) - t.limit; cut > 0 {
		return t.buf[cut:], t.dropped + int64(cut)
	}
	return t.buf, t.dropped
}

func (t *tail) String() string { b, _ := t.bytes(); return strings.TrimSpace(string(b)) }

// log renders the tail as a record's file: a first line says what was dropped (spec/ridges.md 2.6).
func (t *tail) log() []byte {
	b, dropped := t.bytes()
	if dropped == 0 {
		return b
	}
	return append(fmt.Appendf(nil, "[%d bytes dropped]\n", dropped), b...)
}

// copyPython puts a copy of the interpreter at dst that may be executed but not read (see closed in grade.py).
func copyPython(b []byte, dst string) error {
	// No one may read it, not even an owner, whom drivers map to the box's
	// user; and on a read-only mount an owner cannot change that.
	if err := os.WriteFile(dst, b, 0o500); err != nil {
		return fmt.Errorf("copy the interpreter: %w", err)
	}
	if err := os.Chmod(dst, 0o111); err != nil {
		return fmt.Errorf("close the interpreter: %w", err)
	}
	return nil
}
