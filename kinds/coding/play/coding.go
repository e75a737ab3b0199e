// Package coding is the kind of arena in which agents mend bugs: one Python
// file is shown a repository and a problem statement, and returns a diff.
// Hidden tests decide. README.md holds the threat model of the judge.
package play

import (
	"context"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/coding/door"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Name is the kind's name.
const Name = "coding"

// scorer names the judging code: change it whenever a record could be judged differently.
const scorer = "coding-3"

// Config is what the kind needs to know of this host.
type Config struct {
	// Rootfs is the directory of the machine's own root file system, with
	// python3 and git, for all boxes but those of a task that names an image.
	// Only Play and Judge need it.
	Rootfs string
	// Toolchains is where toolchains of agon's own are kept (package toolchain);
	// "" is that package's default.
	Toolchains string
}

// Kind implements kind.Kind for coding arenas.
type Kind struct {
	cfg   Config
	pools pools
}

// New returns the kind.
func New(cfg Config) *Kind { return &Kind{cfg: cfg} }

// Name returns "coding".
func (k *Kind) Name() string { return Name }

// Prints implements kind.Printed: graders read the patch.
func (k *Kind) Prints(path string) bool { return path == FileStdout || path == FileStderr }

// Scorer returns the version of the judge.
func (k *Kind) Scorer() string { return scorer }

// Dialects implements kind.Speaker: agents that were written for Ridges' proxy
// find it, too.
func (k *Kind) Dialects() []string {
	return append([]string{gateway.DialectOpenAI, gateway.DialectTools}, door.Names()...)
}

// OptionVetting says what an arena has vetted by somebody outside: "entries" before they
// are played, "seats" before they move, "both", or "none".
const OptionVetting = "vetting"

// Values of OptionVetting.
const (
	vetNone    = "none"
	vetEntries = "entries"
	vetSeats   = "seats"
	vetBoth    = "both"
)

// Options implements kind.Chooser.
func (k *Kind) Options() map[string][]string {
	return map[string][]string{OptionVetting: {vetNone, vetEntries, vetSeats, vetBoth}}
}

// Vets implements kind.Vetted.
func (k *Kind) Vets(a *agon.Arena) (entries, seats bool) {
	v := a.Options[OptionVetting]
	return v == vetEntries || v == vetBoth, v == vetSeats || v == vetBoth
}

// root is where a task's boxes stand.
func (k *Kind) root(ctx context.Context, env kind.Env, t *task.Task) (rootfs.Root, error) {
	if image := t.Config.Environment.Image; image != "" {
		return env.Root(ctx, image)
	}
	return rootfs.NewRoots(k.cfg.Rootfs, nil).Own(), nil
}

// Plan plays each task once, or as the arena's stages say.
func (k *Kind) Plan(v agon.View) (agon.Plan, error) { return kind.Staged(v), nil }
