package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/research/artifact"
	"github.com/agon-arena/agon/kinds/research/surface"
	"github.com/agon-arena/agon/sandbox/datasets"
)

// scorer names the replaying and judging code: change it whenever the same
// patch could come to another number.
const scorer = "research-1"

// Config is what the kind needs to know of this host.
type Config struct {
	// Rootfs is the directory of the root file system of boxes, with python3,
	// git and bash. Only Play needs it.
	Rootfs string
	// Cache keeps clones of foreign repositories, by commit. Empty: a
	// temporary directory for each play.
	Cache string
	// PlainRepositories lets tasks name repositories by http too, as a
	// coordinator in the same process serves them.
	PlainRepositories bool
	// PackageIndex is the base URL that setup may reach where a task's network
	// is "setup" ("https://pypi.org"). Empty: such tasks cannot be played here.
	PackageIndex string
	// Mirrors are directories of packages that setup may install; preflight looks
	// for hidden data there.
	Mirrors []string
	// Datasets has the data sets that tasks name: preflight looks for hidden data there.
	// nil: it does not, and says so.
	Datasets *datasets.Store
	// RowsURL answers rows of data sets that held-out sources name; empty means
	// the public server.
	RowsURL string
	// Now is the clock of time budgets; nil means time.Now.
	Now func() time.Time
	// Artifacts fetches what submissions name by URL.
	Artifacts artifact.Config
}

// Kind implements kind.Kind for research arenas.
type Kind struct {
	Rules // Plan, Sum, Decide
	cfg   Config

	mu    sync.Mutex // guards bases
	bases map[agon.Digest]*baseInfo
}

var (
	_ kind.Kind    = (*Kind)(nil)
	_ kind.Decider = (*Kind)(nil)
	_ kind.Worked  = (*Kind)(nil)
)

// New returns the kind.
func New(cfg Config) *Kind {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Kind{cfg: cfg, bases: map[agon.Digest]*baseInfo{}}
}

// Name returns "research".
func (k *Kind) Name() string { return Name }

// Prints implements kind.Printed: judges read what was observed.
func (k *Kind) Prints(path string) bool { return path == LogFile }

// Scorer returns the version of replaying and judging.
func (k *Kind) Scorer() string { return scorer }

// maxClaimBytes bounds claim.json: summary, log and numbers.
const maxClaimBytes = 256 << 10

// Check looks at the form of an entry. Whether its patch applies to the task's
// base is what CheckPatch says, which the coordinator asks too.
func (k *Kind) Check(_ context.Context, _ *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	var out []agon.Finding
	add := func(code, field, format string, args ...any) {
		out = append(out, agon.Finding{Code: code, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	for _, e := range entries {
		if n := e.Name(); n != PatchFile && n != ClaimFile || !e.Type().IsRegular() {
			add("unknown_file", plain.Short(n, 80), "an entry holds %s and %s only", PatchFile, ClaimFile)
			break
		}
	}
	e, err := ReadEntry(files)
	switch {
	case errors.Is(err, errEntry):
		add("invalid_entry", "", "%v", err)
		return out, nil
	case err != nil:
		return nil, err
	}
	if len(e.Patch) > 0 {
		for _, r := range surface.Inspect(e.Patch, HighestMaxPatch) {
			add(r.Code, r.Path, "%s", r.Message)
		}
	} else if e.Claim.ArtifactURI == "" {
		add(surface.CodeEmpty, PatchFile, "neither a patch nor an artifact")
	}
	return out, nil
}

// Work implements kind.Worked: the patch. A claim is words, and may be long; it
// counts where there is nothing else, as in an entry of an artifact.
func (k *Kind) Work(files fs.FS) fs.FS {
	b, err := fs.ReadFile(files, PatchFile)
	if err != nil || len(b) == 0 {
		return files
	}
	return blob.FS([]blob.File{{Path: PatchFile, Content: b}})
}

// Entry is the content of a submission.
type Entry struct {
	Patch []byte
	Claim Claim
}

var errEntry = errors.New("entry")

// ReadEntry reads a submission's files within limits. What is wrong with them
// wraps no error of fs; a directory that cannot be read gives fs's own error.
func ReadEntry(files fs.FS) (Entry, error) {
	var e Entry
	var err error
	if e.Patch, err = readLimited(files, PatchFile, HighestMaxPatch); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	b, err := readLimited(files, ClaimFile, maxClaimBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("%w: %s is missing", errEntry, ClaimFile)
	}
	if err != nil {
		return e, err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&e.Claim); err != nil {
		return e, fmt.Errorf("%w: %s: %w", errEntry, ClaimFile, err)
	}
	return e, nil
}

// readLimited reads a regular file of at most limit bytes.
func readLimited(files fs.FS, name string, limit int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", errEntry, name)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", errEntry, name, limit)
	}
	return b, nil
}

// Rule is what the task allows a patch to do.
func (t *Task) Rule() surface.Rule {
	r := surface.Rule{Allowed: t.AllowedPatchPaths, MaxBytes: t.MaxPatchBytes, Style: surface.StylePath}
	if t.Fnmatch {
		r.Style = surface.StyleFnmatch
	}
	return r
}

// CheckPatch judges a patch against the base: what server, validator and miner
// ask alike.
func (t *Task) CheckPatch(base *surface.Tree, patch []byte) (*surface.Result, error) {
	return surface.Check(base, patch, t.Rule())
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
