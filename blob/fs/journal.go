package fs

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
)

// A journal makes small blobs durable in groups: one file to which all who
// wait append together and which is synced once for all of them. A blob's own
// file is written after that, and reaches the disk when it pleases. Open writes
// anew what a crash took. The order of a Put is: record durable, file visible,
// return; a full journal is removed when all of its files are on the disk.

const (
	journalDir   = "journal"
	smallBlob    = 256 << 10 // larger blobs are synced on their own, bytes
	journalBytes = 16 << 20  // a journal is full from here on
	journalCount = 4096      // or from as many records
	recordHead   = 8 + 32    // length and digest
)

// journal is the current journal file and the group that gathers.
type journal struct {
	dir string
	// maxBytes and maxCount say when a file is full.
	maxBytes int64
	maxCount int

	mu    sync.Mutex
	group *group // guarded by mu; nil: nobody waits

	writing sync.Mutex   // held by the leader of a group while it writes
	file    *journalFile // guarded by writing; nil before the first record and after a full file
}

// group is what one sync makes durable. err, file and full may be read when
// done is closed; full is for the leader.
type group struct {
	buf   []byte
	count int
	done  chan struct{}
	err   error
	file  *journalFile
	full  bool
}

// journalFile is one file of records.
type journalFile struct {
	f     *os.File
	size  int64
	count int
	users sync.WaitGroup // Puts whose blobs' files are not written yet
}

// add makes a record durable, together with those that wait at the time. The
// caller writes the blob's file, tells it by file.users.Done, and retires the
// file if it is told to.
func (j *journal) add(d agon.Digest, b []byte) (file *journalFile, retire bool, err error) {
	j.mu.Lock()
	g := j.group
	lead := g == nil
	if lead {
		g = &group{done: make(chan struct{})}
		j.group = g
	}
	g.buf = appendRecord(g.buf, d, b)
	g.count++
	j.mu.Unlock()
	if !lead {
		<-g.done
		return g.file, false, g.err
	}
	j.writing.Lock()
	j.mu.Lock()
	j.group = nil // those who come now make the next group
	j.mu.Unlock()
	g.file, g.full, g.err = j.write(g)
	j.writing.Unlock()
	close(g.done)
	return g.file, g.full, g.err
}

// write appends a group to the current file and syncs it. Whatever goes wrong
// ends the file: nothing may stand behind a torn record. Needs j.writing.
func (j *journal) write(g *group) (_ *journalFile, full bool, err error) {
	x := j.file
	if x == nil {
		if x, err = j.create(); err != nil {
			return nil, false, err
		}
	}
	_, err = x.f.Write(g.buf)
	if err == nil {
		err = x.f.Sync()
	}
	if err != nil {
		j.file = nil // what it holds stays for the next Open
		return nil, false, fmt.Errorf("write journal: %w", err)
	}
	x.users.Add(g.count)
	x.size += int64(len(g.buf))
	x.count += g.count
	j.file = x
	if full = x.size >= j.maxBytes || x.count >= j.maxCount; full {
		j.file = nil
	}
	return x, full, nil
}

// create makes a journal file that other processes see to be in use.
func (j *journal) create() (*journalFile, error) {
	f, err := os.CreateTemp(j.dir, "log-*")
	if err != nil {
		return nil, fmt.Errorf("make journal: %w", err)
	}
	ok, err := lockFile(f)
	if err == nil && !ok {
		err = errors.New("a new file is locked")
	}
	if err == nil {
		err = syncDir(j.dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make journal: %w", err), f.Close(), ignoreMissing(os.Remove(f.Name())))
	}
	return &journalFile{f: f}, nil
}

// retire removes a full file once its blobs are on the disk. Where that fails
// the file stays, and the next Open does it.
func (x *journalFile) retire(dir string) error {
	x.users.Wait()
	err := syncAll(dir)
	if err == nil {
		err = os.Remove(x.f.Name())
	}
	return errors.Join(err, x.f.Close())
}

func appendRecord(to []byte, d agon.Digest, b []byte) []byte {
	to = binary.LittleEndian.AppendUint64(to, uint64(len(b)))
	sum, err := hex.DecodeString(d.Hex())
	if err != nil {
		panic(err) // made by agon.Sum
	}
	return append(append(to, sum...), b...)
}

// readJournal calls fn for every record up to the first that is torn or not
// what its digest says. Errors are those of reading and of fn.
func readJournal(r io.Reader, fn func(agon.Digest, []byte) error) error {
	in := bufio.NewReaderSize(r, 1<<16)
	var head [recordHead]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return ended(err)
		}
		n := binary.LittleEndian.Uint64(head[:8])
		if n > smallBlob {
			return nil
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(in, b); err != nil {
			return ended(err)
		}
		d := agon.Sum(b)
		if d.Hex() != hex.EncodeToString(head[8:]) {
			return nil
		}
		if err := fn(d, b); err != nil {
			return err
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// recover writes what journals of dead processes hold and their blobs' files
// do not, and removes them.
func (s *Store) recover(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read journals: %w", err)
	}
	for _, e := range entries {
		if err := s.recoverFile(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("recover blobs: %w", err)
		}
	}
	return nil
}

func (s *Store) recoverFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	ok, err := lockFile(f)
	if err != nil || !ok {
		return err // not ok: its process lives
	}
	err = readJournal(f, func(d agon.Digest, b []byte) error {
		path := s.path(d)
		if old, err := s.read(path); err == nil && agon.Sum(old) == d {
			return nil
		}
		if err := s.makeDir(filepath.Dir(path)); err != nil {
			return err
		}
		return s.writeFile(path, b, true)
	})
	if err != nil {
		return err
	}
	if err := syncAll(s.dir); err != nil { // what was there may be in memory only
		return err
	}
	return os.Remove(name)
}

// lockFile takes a file for this process; ok is false where another has it.
func lockFile(f *os.File) (ok bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// syncAll puts everything of dir's file system on the disk.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync file system of %s: %w", dir, err)
	}
	return nil
}
