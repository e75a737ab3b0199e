// Package guard notices a database that has lost commits. After each commit the
// owner writes how many there were into a small file beside the database; at
// the next start a file that is ahead says that what was acknowledged is gone,
// as when a byte of a write-ahead log flips and SQLite takes the bad frame for
// its end.
//
// The file is written without waiting for the disk: it survives a killed
// process, and after a loss of power it may be behind, which means nothing.
package guard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"

	"github.com/agon-arena/agon"
)

// Mark is how far a database has come.
type Mark struct {
	Count int64
	Hash  [32]byte // running hash of the commits; zero where the owner keeps none
}

// Next is the mark after one more commit, which salt sets apart from that of a
// copy of the database.
func (m Mark) Next(salt []byte) Mark {
	h := sha256.New()
	h.Write(m.Hash[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(m.Count+1)))
	h.Write(salt)
	return Mark{Count: m.Count + 1, Hash: [32]byte(h.Sum(nil))}
}

// Hex is the running hash in hex.
func (m Mark) Hex() string { return hex.EncodeToString(m.Hash[:]) }

// size is 8 bytes of count, the hash, and a check sum of both.
const size = 8 + 32 + 4

// File is the file of a mark. Not safe for concurrent use.
type File struct {
	f    *os.File
	path string
}

// Open opens or makes the file at path, mode 0600.
func Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open guard: %w", err)
	}
	return &File{f: f, path: path}, nil
}

// Read returns the mark; ok is false where there is none yet, or one that was
// torn while it was written.
func (g *File) Read() (m Mark, ok bool, err error) {
	var b [size]byte
	n, err := g.f.ReadAt(b[:], 0)
	if n < size && (err == nil || errors.Is(err, io.EOF)) {
		return m, false, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return m, false, fmt.Errorf("read guard %s: %w", g.path, err)
	}
	if crc32.ChecksumIEEE(b[:40]) != binary.BigEndian.Uint32(b[40:]) {
		return m, false, nil
	}
	m.Count = int64(binary.BigEndian.Uint64(b[:]))
	copy(m.Hash[:], b[8:40])
	return m, m.Count >= 0, nil
}

// Write replaces the mark.
func (g *File) Write(m Mark) error {
	var b [size]byte
	binary.BigEndian.PutUint64(b[:], uint64(m.Count))
	copy(b[8:], m.Hash[:])
	binary.BigEndian.PutUint32(b[40:], crc32.ChecksumIEEE(b[:40]))
	if _, err := g.f.WriteAt(b[:], 0); err != nil {
		return fmt.Errorf("write guard %s: %w", g.path, err)
	}
	return nil
}

// Close closes the file.
func (g *File) Close() error { return g.f.Close() }

// Check compares what a database holds with the mark: have is its own. It
// returns *agon.Error (lost_commits) where the mark is ahead.
func (g *File) Check(what string, have Mark) error {
	m, ok, err := g.Read()
	if err != nil || !ok {
		return err
	}
	switch {
	case m.Count > have.Count:
		return &agon.Error{
			Code: "lost_commits", Status: http.StatusConflict, Fault: agon.FaultPlatform,
			Message: fmt.Sprintf("%s has %d commits, and had acknowledged %d: the last %d are gone (a damaged or older file)", what, have.Count, m.Count, m.Count-have.Count),
			Mend:    "restore the file with its -wal from before the damage, or start with AGON_ACCEPT_LOSS=1, which is written in the log",
		}
	case m.Count == have.Count && m.Hash != have.Hash:
		return &agon.Error{
			Code: "lost_commits", Status: http.StatusConflict, Fault: agon.FaultPlatform,
			Message: what + " is not the one that was written here last: it has as many commits, but others",
			Mend:    "restore the file that belongs here, or start with AGON_ACCEPT_LOSS=1, which is written in the log",
		}
	}
	return nil
}
