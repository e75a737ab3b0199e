package shopping

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/encode"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/problem"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/search"
	"github.com/agon-arena/agon/kinds/shopping/shop"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// shopFloor is the catalogue of this process: one index for the gateway's
// tools and for the grader, opened when it is first needed.
type shopFloor struct {
	mu    sync.Mutex
	o     *kit.Options  // of the first who asked; guarded by mu
	index *search.Index // guarded by mu
	label string        // of index, for receipts and scorer versions; guarded by mu
	enc   shop.Encoder  // guarded by mu
}

// With settles whose options the catalogue is opened by: the first that are given.
func (f *shopFloor) With(o kit.Options) *shopFloor {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.o == nil {
		f.o = &o
	}
	return f
}

// hostFloor is a floor of some options. It is settled when something is judged by it,
// so a kind that is only asked what it is settles nothing.
type hostFloor struct {
	floor *shopFloor
	o     kit.Options
}

// Version implements play.Grader.
func (h hostFloor) Version() string { return h.floor.With(h.o).Version() }

// Grade implements play.Grader.
func (h hostFloor) Grade(ctx context.Context, problem, dialogue []byte) (play.Grade, error) {
	return h.floor.With(h.o).Grade(ctx, problem, dialogue)
}

// EncoderName implements play.Encoded.
func (h hostFloor) EncoderName() (string, error) {
	enc, err := h.floor.With(h.o).Encoder()
	if err != nil {
		return "", err
	}
	return enc.Name(), nil
}

func (f *shopFloor) getenv(name string) string {
	if f.o.Getenv == nil { // set before anybody asks, and never again
		return ""
	}
	return f.o.Getenv(name)
}

// Open returns the index of the catalogue in AGON_SHOP_CATALOGUE (ShoppingBench's
// product lines), else of the demo's, which a seed makes. A failure is tried
// again by the next caller.
func (f *shopFloor) Open(ctx context.Context) (*search.Index, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.index != nil {
		return f.index, f.label, nil
	}
	dir := filepath.Join(kit.CacheDir(*f.o), "shop")
	lines := func() (io.ReadCloser, error) { return problem.DemoCatalogue(), nil }
	path := filepath.Join(dir, fmt.Sprintf("demo-%s-%d-%d.idx", catalogue.Version, problem.DemoProducts, problem.DemoSeed))
	label := "demo"
	if file := f.getenv("AGON_SHOP_CATALOGUE"); file != "" {
		sum, err := sumFile(file)
		if err != nil {
			return nil, "", fmt.Errorf("read AGON_SHOP_CATALOGUE: %w", err)
		}
		path, label = filepath.Join(dir, sum+".idx"), "file"
		lines = func() (io.ReadCloser, error) { return os.Open(file) }
	}
	x, err := search.Open(path)
	if err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, "", fmt.Errorf("open catalogue: %w", err)
		}
		in, err := lines()
		if err != nil {
			return nil, "", fmt.Errorf("open catalogue: %w", err)
		}
		_, err = search.Build(ctx, in, path)
		_ = in.Close() // read only
		if err != nil {
			return nil, "", err
		}
		if x, err = search.Open(path); err != nil {
			return nil, "", err
		}
	}
	f.index, f.label = x, label+"-"+x.Meta().Catalogue.Hex()[:12]
	return f.index, f.label, nil
}

func sumFile(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, in); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// mode is AGON_SHOP_MODE: strict (default) or compat, for search and scores alike.
func (f *shopFloor) mode() (score.Fix, error) {
	switch m := f.getenv("AGON_SHOP_MODE"); m {
	case "", "strict":
		return score.Strict, nil
	case "compat":
		return score.Compat, nil
	default:
		return 0, &agon.Error{Code: "bad_setting", Status: 422, Field: "AGON_SHOP_MODE", Message: fmt.Sprintf("AGON_SHOP_MODE: %.40q: want strict or compat", m)}
	}
}

// Encoder is the one that AGON_ENCODER_* describe, else the built-in one, which
// needs no model and knows no meaning. It is made once: it keeps what it was told.
func (f *shopFloor) Encoder() (shop.Encoder, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.enc == nil {
		e, err := encode.Open(encode.FromEnv(f.getenv))
		if err != nil {
			return nil, err
		}
		f.enc = e
	}
	return f.enc, nil
}

// Name implements shopping.Searcher.
func (f *shopFloor) Name() string { return "catalogue" }

// Answer implements shopping.Searcher.
func (f *shopFloor) Answer(ctx context.Context, tool string, args map[string]string) ([]byte, int, error) {
	x, label, err := f.Open(ctx)
	if err != nil {
		return nil, 0, err
	}
	fix, err := f.mode()
	if err != nil {
		return nil, 0, err
	}
	return play.Service{Handler: &search.Service{Index: x, Strict: fix != score.Compat}, Label: label}.Answer(ctx, tool, args)
}

// Version implements shopping.Grader.
func (f *shopFloor) Version() string {
	_, label, err := f.Open(context.Background())
	if err != nil {
		return "no-catalogue" // nothing can be graded then
	}
	fix, err1 := f.mode()
	enc, err2 := f.Encoder()
	if err1 != nil || err2 != nil {
		return "no-encoder"
	}
	return fix.String() + "+" + label + "+" + enc.Name()
}

// Grade implements shopping.Grader.
func (f *shopFloor) Grade(ctx context.Context, raw, dialogue []byte) (play.Grade, error) {
	x, _, err := f.Open(ctx)
	if err != nil {
		return play.Grade{}, err
	}
	fix, err := f.mode()
	if err != nil {
		return play.Grade{}, err
	}
	enc, err := f.Encoder()
	if err != nil {
		return play.Grade{}, err
	}
	return play.ShopGrader{Scorer: score.New(score.Config{Fix: fix, Encoder: enc}), Catalogue: x}.Grade(ctx, raw, dialogue)
}

// Sets of the demo. The public one ships; the hidden one is made of a seed that
// everybody can read (see demoHiddenSeed). Arenas that pay draw theirs in secret:
// agon shop problems --hidden.
const (
	publicSet = "demo"
	hiddenSet = "demo-hidden"
)

// shopSet makes the hidden set of the demo; the same one every time.
func shopSet(o kit.Options, f *shopFloor, set string) ([]*task.Task, bool, error) {
	if set != hiddenSet {
		return nil, false, nil
	}
	seed, err := hiddenSeed(o)
	if err != nil {
		return nil, false, err
	}
	ctx := context.Background()
	x, _, err := f.Open(ctx)
	if err != nil {
		return nil, false, err
	}
	enc, err := f.Encoder()
	if err != nil {
		return nil, false, err
	}
	c := problem.DemoHidden(x, enc, seed, problem.DemoProblems)
	problems, err := problem.Generate(ctx, c)
	if err != nil {
		return nil, false, err
	}
	tmp, err := tempdir.Make("shop")
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(tmp)
	list, err := writtenTasks(filepath.Join(tmp, "set"), set, "agon's generator of shopping problems", problems)
	return list, true, err
}

// writtenTasks makes tasks of problems, by way of dir, which must not exist yet.
func writtenTasks(dir, set, source string, problems []shop.Problem) ([]*task.Task, error) {
	if _, err := problem.WriteTasks(dir, source, problems); err != nil {
		return nil, err
	}
	files, err := readFiles(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	return task.LoadSet(blob.FS(files), set)
}

// readFiles reads a small tree of ours into memory.
func readFiles(tree fs.FS) ([]blob.File, error) {
	var out []blob.File
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(tree, p)
		out = append(out, blob.File{Path: p, Content: b})
		return err
	})
	return out, err
}

// demoHiddenSeed makes the hidden problems of the demo. It is public, in the
// demo only: so the samples score the same, and the same one wins, everywhere.
const demoHiddenSeed = 2028

// hiddenSeed is the seed of the demo's hidden problems: the eight bytes of
// shopping.seed in the data directory, where somebody wants them secret.
func hiddenSeed(o kit.Options) (uint64, error) {
	if o.Data == "" {
		return 0, &agon.Error{Code: "not_found", Status: 404, Field: "hidden", Message: "the hidden problems of the demo belong to a data directory", Mend: "name one with --data"}
	}
	path := filepath.Join(o.Data, "shopping.seed")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return demoHiddenSeed, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the hidden seed: %w", err)
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("read the hidden seed: %s has %d bytes, want 8", path, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}
