package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// Source is where the facts are: the platform's store. The transaction that makes
// a fact true gives it the next index, so that the order of the log is decided
// and durable before anything is published. The same index gives the same leaf,
// as long as nobody changes what is stored.
type Source interface {
	// Leaves returns the leaves from an index on, in order, with their salts.
	Leaves(ctx context.Context, from int64, limit int, salt func(index int64) string) ([]Leaf, error)
	// LeafCount is the index after the newest leaf.
	LeafCount(ctx context.Context) (int64, error)
}

// Config configures a Log. Storage, Source and Key are needed.
type Config struct {
	Storage Storage
	Source  Source
	Key     *Key
	// Commits tells how often the store was written, and its running hash.
	Commits func() (n int64, hash string)
	// AcceptLoss goes on though the store lacks leaves that were published: the
	// operator has said so, and the log keeps them.
	AcceptLoss bool
	Every      time.Duration // between heads; 1 s
	Log        *slog.Logger  // slog.Default()
}

// Log publishes what the source holds. Safe for concurrent use.
type Log struct {
	cfg  Config
	once sync.Mutex // held by Publish

	mu    sync.RWMutex
	head  Checkpoint // guarded by mu
	stale bool       // guarded by mu: an earlier key has signed head
	// trouble is why Run could not publish when it last tried; guarded by mu
	trouble error
}

// LostError says that the store lacks leaves that the log has published.
type LostError struct {
	Have, Want int64
	Entries    []Entry // the first that are missing
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("the store lacks %d facts that the log has published", e.Want-e.Have)
	for i, x := range e.Entries {
		if i == 0 {
			s += ":"
		} else {
			s += ","
		}
		s += " " + x.Type + " " + x.ID
	}
	if more := e.Want - e.Have - int64(len(e.Entries)); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// maxNamed bounds how many missing leaves an error names.
const maxNamed = 20

// Open reads the log that is there and compares it with the store: the newest
// head must be ours, its tiles must give its root, and the store must hold all
// that was published. Tiles that are missing or torn are made again.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if cfg.Every <= 0 {
		cfg.Every = time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	l := &Log{cfg: cfg}
	b, err := cfg.Storage.Read(pathCheckpoint)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		h, err := tlog.TreeHash(0, nil)
		if err != nil {
			return nil, fmt.Errorf("open log: %w", err)
		}
		l.head = Checkpoint{Origin: cfg.Key.Origin, Tree: tlog.Tree{Hash: h}}
	case err != nil:
		return nil, fmt.Errorf("open log: %w", err)
	default:
		if l.head, l.stale, err = openHead(string(b), cfg); err != nil {
			return nil, fmt.Errorf("open log: its newest head: %w", err)
		}
	}
	have, err := cfg.Source.LeafCount(ctx)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if have < l.head.N {
		lost := &LostError{Have: have, Want: l.head.N}
		for i := have; i < l.head.N && len(lost.Entries) < maxNamed; i++ {
			if e, err := l.Entry(i); err == nil {
				if x, err := ParseEntry(e); err == nil {
					lost.Entries = append(lost.Entries, x)
				}
			}
		}
		if !cfg.AcceptLoss {
			return nil, fmt.Errorf("open log: %w", lost)
		}
		cfg.Log.Warn("the operator goes on without facts that the log has published", "lost", lost.Error())
	}
	if err := l.checkTiles(); err != nil {
		cfg.Log.Warn("the log's tiles are made again from the store", "why", err)
		if err := l.rebuild(ctx); err != nil {
			return nil, fmt.Errorf("open log: %w", err)
		}
	}
	return l, nil
}

// openHead reads the newest head, which an earlier key may have signed.
func openHead(text string, cfg Config) (c Checkpoint, stale bool, err error) {
	c, err = OpenCheckpoint(text, cfg.Key.Public())
	if err == nil {
		return c, false, nil
	}
	list, kerr := ReadKeys(cfg.Storage)
	if kerr != nil {
		return c, false, errors.Join(err, kerr)
	}
	for _, s := range list {
		if Current(s.Old, list) != cfg.Key.Public() {
			continue
		}
		if old, oerr := OpenCheckpoint(text, s.Old); oerr == nil {
			return old, true, nil
		}
	}
	return c, false, err
}

// checkTiles reads the tiles along the right edge: they must give the head's root.
func (l *Log) checkTiles() error {
	h, err := tlog.TreeHash(l.head.N, &tilesOf{read: l.cfg.Storage.Read, n: l.head.N})
	switch {
	case err != nil:
		return err
	case h != l.head.Hash:
		return errors.New("they do not give the root of the newest head")
	}
	return nil
}

// rebuild writes every tile up to the newest head from the store's leaves.
func (l *Log) rebuild(ctx context.Context) error {
	want := l.head
	l.head.Tree = tlog.Tree{}
	for l.head.N < want.N {
		list, err := l.leaves(ctx, int(min(want.N-l.head.N, batchLeaves)))
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		if l.head.Tree, err = l.write(l.head.Tree, list); err != nil {
			return err
		}
	}
	if l.head.N != want.N || l.head.Hash != want.Hash {
		return fmt.Errorf("the store's first %d facts are not those that the log has published: rows were changed, or the tiles are damaged", want.N)
	}
	l.head = want
	return nil
}

// batchLeaves is how many leaves one step takes from the store.
const batchLeaves = 4096

func (l *Log) leaves(ctx context.Context, limit int) ([]Leaf, error) {
	list, err := l.cfg.Source.Leaves(ctx, l.head.N, limit, l.Salt)
	if err != nil {
		return nil, fmt.Errorf("read leaves: %w", err)
	}
	for i, x := range list {
		if x.Index != l.head.N+int64(i) {
			return nil, fmt.Errorf("read leaves: number %d stands where %d is due", x.Index, l.head.N+int64(i))
		}
		if len(x.Entry) > MaxEntry {
			return nil, fmt.Errorf("read leaves: number %d has %d bytes, at most %d", x.Index, len(x.Entry), MaxEntry)
		}
	}
	return list, nil
}

// write adds leaves to the files of a tree and returns the tree that they make.
// Nobody sees them before a head names them.
func (l *Log) write(old tlog.Tree, list []Leaf) (tlog.Tree, error) {
	if len(list) == 0 {
		return old, nil
	}
	base := &tilesOf{read: l.cfg.Storage.Read, n: old.N, keep: map[tlog.Tile][]byte{}}
	fresh := map[int64]tlog.Hash{}
	first := tlog.StoredHashIndex(0, old.N)
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			if h, ok := fresh[x]; ok {
				out[i] = h
				continue
			}
			h, err := base.ReadHashes([]int64{x})
			if err != nil {
				return nil, err
			}
			out[i] = h[0]
		}
		return out, nil
	})
	n, next := old.N, first
	for _, leaf := range list {
		hs, err := tlog.StoredHashes(n, leaf.Entry, read)
		if err != nil {
			return old, fmt.Errorf("extend log: %w", err)
		}
		for _, h := range hs {
			fresh[next] = h
			next++
		}
		n++
	}
	if err := l.writeEntries(old.N, n, list); err != nil {
		return old, err
	}
	for _, t := range tlog.NewTiles(tileHeight, old.N, n) {
		b, err := tlog.ReadTileData(t, read)
		if err != nil {
			return old, fmt.Errorf("extend log: %w", err)
		}
		if err := l.put(t, b); err != nil {
			return old, err
		}
	}
	h, err := tlog.TreeHash(n, read)
	if err != nil {
		return old, fmt.Errorf("extend log: %w", err)
	}
	return tlog.Tree{N: n, Hash: h}, nil
}

// writeEntries writes the bundles that hold entries from to n.
func (l *Log) writeEntries(from, n int64, list []Leaf) error {
	var b []byte
	if k := from % tileWidth; k > 0 {
		old, err := l.bundle(entriesTile(from-1, from))
		if err != nil {
			return fmt.Errorf("extend log: %w", err)
		}
		for _, entry := range old {
			b = appendEntry(b, entry)
		}
	}
	for i, leaf := range list {
		b = appendEntry(b, leaf.Entry)
		at := from + int64(i)
		if (at+1)%tileWidth == 0 || at+1 == n {
			if err := l.put(entriesTile(at, at+1), b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	return nil
}

// put writes a tile. Of one that is full now the partial ones go.
func (l *Log) put(t tlog.Tile, b []byte) error {
	if err := l.cfg.Storage.Write(tilePath(t), b, false); err != nil {
		return err
	}
	if t.W < tileWidth {
		return nil
	}
	return l.cfg.Storage.Drop(tilePath(t) + ".p")
}

// Publish adds what the store holds beyond the newest head, and signs a new
// head if there was anything.
func (l *Log) Publish(ctx context.Context) (Checkpoint, error) {
	l.once.Lock()
	defer l.once.Unlock()
	old := l.Head()
	tree := old.Tree
	for {
		// Only Publish moves the head, so this sees its own progress.
		list, err := l.leavesFrom(ctx, tree.N)
		if err != nil {
			return old, err
		}
		if len(list) == 0 {
			break
		}
		if tree, err = l.write(tree, list); err != nil {
			return old, err
		}
		if len(list) < batchLeaves {
			break
		}
	}
	l.mu.RLock()
	stale := l.stale
	l.mu.RUnlock()
	if tree.N == old.N && old.Text != "" && !stale {
		return old, nil
	}
	c := Checkpoint{Tree: tree}
	if l.cfg.Commits != nil {
		c.Commits, c.CommitHash = l.cfg.Commits()
	}
	c, err := l.cfg.Key.Sign(c)
	if err != nil {
		return old, err
	}
	if err := l.cfg.Storage.Write(pathCheckpoint, []byte(c.Text), true); err != nil {
		return old, err
	}
	l.mu.Lock()
	l.head, l.stale = c, false
	l.mu.Unlock()
	return c, nil
}

func (l *Log) leavesFrom(ctx context.Context, from int64) ([]Leaf, error) {
	at := &Log{cfg: l.cfg}
	at.head.N = from
	return at.leaves(ctx, batchLeaves)
}

// Run publishes until ctx ends, and once more then.
func (l *Log) Run(ctx context.Context) {
	t := time.NewTicker(l.cfg.Every)
	defer t.Stop()
	publish := func(ctx context.Context) {
		_, err := l.Publish(ctx)
		if err != nil && ctx.Err() == nil {
			l.cfg.Log.Error("the log cannot be published", "err", err)
		}
		l.mu.Lock()
		l.trouble = err
		l.mu.Unlock()
	}
	for {
		publish(ctx)
		select {
		case <-ctx.Done():
			publish(context.WithoutCancel(ctx))
			return
		case <-t.C:
		}
	}
}

// Trouble is why Run could not publish when it last tried, nil where it could.
func (l *Log) Trouble() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.trouble
}

// Head is the newest signed head.
func (l *Log) Head() Checkpoint {
	l.mu.RLock()
	defer l.mu.RUnlock()
	c := l.head
	c.Witnesses = maps.Clone(c.Witnesses)
	return c
}

// Key is the public key of the log.
func (l *Log) Key() string { return l.cfg.Key.Public() }

// Salt opens what the leaf at an index commits to. It comes of the log's secret
// key, so that it need not be kept, and nobody else can make it.
func (l *Log) Salt(index int64) string { return l.cfg.Key.salt(index) }

// Entry reads entry i from the published files.
func (l *Log) Entry(i int64) ([]byte, error) {
	n := l.Head().N
	if i < 0 || i >= n {
		return nil, fmt.Errorf("read entry %d: the log has %d", i, n)
	}
	list, err := l.bundle(entriesTile(i, n))
	if err != nil {
		return nil, fmt.Errorf("read entry %d: %w", i, err)
	}
	return list[i%tileWidth], nil
}

// bundle reads the entries of a bundle, t.W of them. Where it is not there as it was, it has
// become full since: a publication ended after that, or another server made it.
func (l *Log) bundle(t tlog.Tile) ([][]byte, error) {
	b, err := l.cfg.Storage.Read(tilePath(t))
	if !errors.Is(err, fs.ErrNotExist) || t.W == tileWidth {
		if err != nil {
			return nil, err
		}
		return splitBundle(b, t.W)
	}
	full := t
	full.W = tileWidth
	if b, err = l.cfg.Storage.Read(tilePath(full)); err != nil {
		return nil, err
	}
	list, err := splitBundle(b, tileWidth)
	if err != nil {
		return nil, err
	}
	return list[:t.W], nil
}

// Inclusion proves that leaf i is in the tree of a head.
func (l *Log) Inclusion(i int64, c Checkpoint) (tlog.RecordProof, error) {
	if i < 0 || i >= c.N {
		return nil, fmt.Errorf("prove leaf %d: the log has %d", i, c.N)
	}
	return tlog.ProveRecord(c.N, i, l.reader(c.N))
}

// Consistency proves that the tree of size n begins the tree of a head.
func (l *Log) Consistency(n int64, c Checkpoint) (tlog.TreeProof, error) {
	if n < 1 || n > c.N {
		return nil, fmt.Errorf("prove consistency: size %d is not in 1 to %d", n, c.N)
	}
	return tlog.ProveTree(c.N, n, l.reader(c.N))
}

// reader reads the tiles of a tree of size n; where a tile has grown since, its
// beginning.
func (l *Log) reader(n int64) tlog.HashReader {
	return &tilesOf{n: n, keep: map[tlog.Tile][]byte{}, read: l.cfg.Storage.Read}
}

// Compare reads the entries from an index on and compares each with what the
// store says today; it reports what differs, a line each.
func (l *Log) Compare(ctx context.Context, from int64, found func(what string)) error {
	n := l.Head().N
	for from = max(from, 0); from < n; {
		list, err := l.cfg.Source.Leaves(ctx, from, int(min(n-from, tileWidth)), l.Salt)
		if err != nil {
			return fmt.Errorf("read leaves: %w", err)
		}
		if len(list) == 0 {
			found(fmt.Sprintf("the store lacks the facts from %d of the log on", from))
			return nil
		}
		for _, x := range list {
			if x.Index >= n {
				return nil
			}
			entry, err := l.Entry(x.Index)
			switch {
			case err != nil:
				found(err.Error())
			case x.Index != from:
				found(fmt.Sprintf("the store lacks the facts %d to %d of the log", from, x.Index-1))
			case !bytes.Equal(entry, x.Entry):
				found(fmt.Sprintf("fact %d (%s %s) is not what the log has said", x.Index, x.Type, x.ID))
			}
			from = x.Index + 1
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Audit reads the whole log: every tile against the head, every entry against
// its leaf, and every row of the store against its entry. It reports what is
// damaged, a line each.
func (l *Log) Audit(ctx context.Context, found func(what string)) error {
	c := l.Head()
	if c.N == 0 {
		return nil
	}
	var tree tlog.Tree
	fresh := map[int64]tlog.Hash{}
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			h, ok := fresh[x]
			if !ok {
				return nil, fmt.Errorf("hash %d is not there", x)
			}
			out[i] = h
		}
		return out, nil
	})
	next := int64(0)
	for from := int64(0); from < c.N; from += tileWidth {
		t := entriesTile(from, c.N)
		entries, err := l.bundle(t)
		if err != nil {
			found(fmt.Sprintf("%s: %v", tilePath(t), err))
		}
		rows, err := l.cfg.Source.Leaves(ctx, from, t.W, l.Salt)
		if err != nil {
			return fmt.Errorf("read leaves: %w", err)
		}
		for i := range t.W {
			var entry []byte
			at := from + int64(i)
			if entries != nil {
				entry = entries[i]
			}
			switch {
			case i >= len(rows) || rows[i].Index != at:
				found(fmt.Sprintf("the store lacks fact %d of the log", at))
				rows = append(rows[:min(i, len(rows))], append([]Leaf{{Index: at, Entry: entry}}, rows[min(i, len(rows)):]...)...)
			case entry != nil && !bytes.Equal(rows[i].Entry, entry):
				found(fmt.Sprintf("fact %d: the store says %.80q, the log %.80q", at, rows[i].Entry, entry))
			}
			if entry == nil {
				entry = rows[i].Entry
			}
			hs, err := tlog.StoredHashes(at, entry, read)
			if err != nil {
				return fmt.Errorf("read log: %w", err)
			}
			for _, h := range hs {
				fresh[next] = h
				next++
			}
		}
		tree.N = from + int64(t.W)
	}
	h, err := tlog.TreeHash(tree.N, read)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	if h != c.Hash {
		found("the entries of the log do not give the root of its newest head")
	}
	for _, t := range tlog.NewTiles(tileHeight, 0, c.N) {
		want, err := tlog.ReadTileData(t, read)
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		if got, err := (&tilesOf{read: l.cfg.Storage.Read, n: c.N}).tile(t); err != nil || !bytes.Equal(got, want) {
			found(fmt.Sprintf("%s does not hold the hashes of its entries", tilePath(t)))
		}
	}
	return nil
}
