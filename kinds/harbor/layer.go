package harbor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/indexes"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// The set-up of a submission (agon.toml: setup) runs once for each root file system,
// in a box without the task, whose only way out leads to package registries. What
// it leaves below setupDir is a layer, shown to the agent read-only at the same path.
const (
	setupDir   = "/layer"
	setupFile  = "setup.txt" // of a record, where the set-up failed: the end of what it printed
	maxLayer   = 4 << 30     // bytes
	maxInLayer = 300_000     // files
	setupTime  = 10 * time.Minute

	optionSetup     = "setup" // of an arena: whether set-ups are run
	setupOff        = "off"
	setupRegistries = "registries"
)

// Options implements kind.Chooser.
func (harbor) Options() map[string][]string {
	return map[string][]string{optionSetup: {setupOff, setupRegistries}}
}

// layerVersion is part of a layer's name: change it whenever the same set-up could leave something else.
const layerVersion = "1"

// layerPath is where programs of a layer stand.
const layerPath = setupDir + "/bin:" + setupDir + "/.local/bin:" + setupDir + "/node_modules/.bin"

// layer returns the directory with what a submission's set-up left, which it makes
// first where it is not here. An *outcome is the set-up's own failure.
func (h harbor) layer(ctx context.Context, env kind.Env, t string, sub agon.Digest, agent, script string, root rootfs.Root) (string, error) {
	if !strings.Contains(script, "AGON_AGENT_DIR") {
		sub, agent = "", "" // it sees no file of the submission: all with this script share the layer
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{layerVersion, string(sub), filepath.Base(root.Dir), script}, "\n")))
	dir := filepath.Join(h.layers, hex.EncodeToString(sum[:12]))
	if isDir(dir) {
		return dir, rootfs.Used(dir, time.Now()) //nolint:forbidigo // a mark on the disk
	}
	if err := os.MkdirAll(h.layers, 0o755); err != nil {
		return "", fmt.Errorf("make cache of layers: %w", err)
	}
	unlock, err := rootfs.Lock(ctx, dir+".lock", "set-up")
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(dir) { // made while we waited
		return dir, nil
	}
	tmp, err := os.MkdirTemp(h.layers, ".new-")
	if err != nil {
		return "", fmt.Errorf("make temporary directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	ctx, cancel := context.WithTimeout(ctx, setupTime+time.Minute)
	defer cancel()
	if err := setup(ctx, env, t, agent, script, root, tmp); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(tmp, "layer"), dir); err != nil {
		return "", fmt.Errorf("keep the layer: %w", err)
	}
	if _, err := rootfs.Prune(h.layers, rootfs.DefaultQuota, dir); err != nil {
		return "", fmt.Errorf("bound the cache of layers: %w", err)
	}
	return dir, nil
}

// setup runs a set-up and unpacks what it left as tmp/layer.
func setup(ctx context.Context, env kind.Env, t, agent, script string, root rootfs.Root, tmp string) error {
	reg, ok := env.(kind.Registrar)
	if !ok {
		return errors.New("no package registries are shown here")
	}
	shown, err := reg.Registries(ctx, indexes.Pip, indexes.Npm, indexes.Go)
	if err != nil {
		return err
	}
	spec := sandbox.Spec{
		Name: "setup", Apart: true, Rootfs: root.Dir, UID: root.UID, GID: root.GID, Doors: []sandbox.Door{shown.Door},
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountScratch, Target: setupDir},
			{Kind: sandbox.MountScratch, Target: "/tmp"},
		},
		Env: root.Environ(append([]string{
			"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + setupDir, "AGON_LAYER=" + setupDir, "AGON_AGENT_DIR=" + agentDir,
			"PYTHONUSERBASE=" + setupDir, "PIP_USER=1", "PIP_BREAK_SYSTEM_PACKAGES=1", "PYTHONDONTWRITEBYTECODE=1",
			"NPM_CONFIG_PREFIX=" + setupDir, "NPM_CONFIG_CACHE=/tmp/npm", "XDG_CACHE_HOME=/tmp/cache", "GOPATH=/tmp/go", "GOBIN=" + setupDir + "/bin", "GOCACHE=/tmp/gocache",
		}, shown.Env...)...),
		Limits: agon.Limits{WallMS: setupTime.Milliseconds(), CPUMilli: 2000, MemoryBytes: 2 << 30, Pids: 256, DiskBytes: maxLayer + maxLayer/2, Inodes: 2 * maxInLayer, OutputBytes: maxLayer + maxLayer/8},
	}
	spec.Env[0] = "PATH=" + layerPath + ":" + root.Path // where Environ has it
	if agent != "" {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: agent, Target: agentDir, Exec: true})
	}
	box, err := env.Box(ctx, spec)
	if err != nil {
		return err
	}
	defer box.Close()
	if err := prepare(ctx, box, names(nil)); err != nil {
		return err
	}
	printed := &ending{limit: maxLog}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-ec", script}, Dir: setupDir, Stdout: printed, Stderr: printed, Wall: setupTime, Untrusted: true})
	if err != nil {
		return fmt.Errorf("run the set-up: %w", err)
	}
	env.Progress("setup", t, map[string]any{"exit": x.Code, "limit": x.Limit, "text": plain.Short(printed.text(), 8000), "fetched": shown.Fetched()})
	switch {
	case x.Lost != "":
		return fmt.Errorf("run the set-up: command was lost: %s", x.Lost)
	case x.Limit != "":
		return &failedSetup{outcome{"setup", "the set-up reached its " + x.Limit + " limit"}, printed.b}
	case x.Code != 0:
		// What a registry left undone is not the submission's failure.
		if err := shown.Check(ctx); err != nil {
			return err
		}
		return &failedSetup{outcome{"setup", fmt.Sprintf("the set-up ended with status %d: %s", x.Code, lastLine(printed.text()))}, printed.b}
	}
	return takeLayer(ctx, box, tmp)
}

// failedSetup is a set-up that failed by itself, and the end of what it printed.
type failedSetup struct {
	outcome
	printed []byte
}

// takeLayer copies what stands below setupDir out of a box.
func takeLayer(ctx context.Context, box sandbox.Box, tmp string) error {
	file, err := tempdir.Make("layer")
	if err != nil {
		return fmt.Errorf("take the layer: %w", err)
	}
	defer os.RemoveAll(file)
	archive, err := os.Create(filepath.Join(file, "layer.tar"))
	if err != nil {
		return fmt.Errorf("take the layer: %w", err)
	}
	defer archive.Close()
	var errs bytes.Buffer
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"tar", "-C", setupDir, "-cf", "-", "."}, Dir: "/", Stdout: archive, Stderr: &errs})
	switch {
	case err != nil:
		return fmt.Errorf("take the layer: %w", err)
	case x.Limit != "":
		return &failedSetup{outcome{"setup", fmt.Sprintf("the set-up left more than %d bytes", maxLayer)}, nil}
	case x.Lost != "" || x.Code != 0:
		return fmt.Errorf("take the layer: exit %d %s: %s", x.Code, x.Lost, plain.Short(errs.String(), 300))
	}
	if _, err := archive.Seek(0, 0); err != nil {
		return fmt.Errorf("take the layer: %w", err)
	}
	dir := filepath.Join(tmp, "layer")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("take the layer: %w", err)
	}
	if err := rootfs.Unpack(dir, archive, maxLayer, maxInLayer); err != nil {
		if errors.Is(err, rootfs.ErrTooLarge) {
			return &failedSetup{outcome{"setup", "what the set-up left: " + err.Error()}, nil}
		}
		return fmt.Errorf("take the layer: %w", err)
	}
	return nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return plain.Short(s[strings.LastIndexByte(s, '\n')+1:], 400)
}

// mountLayer shows a layer to an agent's box, read-only or with what the agent
// writes over it.
func mountLayer(spec *sandbox.Spec, dir string, kind sandbox.MountKind) {
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: kind, Source: dir, Target: setupDir, Exec: true})
	spec.Env = append(spec.Env, "AGON_LAYER="+setupDir, "PYTHONUSERBASE="+setupDir)
	for i, e := range spec.Env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			spec.Env[i] = "PATH=" + layerPath + ":" + v
		}
	}
}
