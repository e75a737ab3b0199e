package guard

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// WAL is what the frames of a SQLite write-ahead log look like.
type WAL struct {
	Frames int // that follow each other soundly: SQLite reads these
	// Beyond are frames of the same log after the first that is not sound: a commit
	// that a crash cut short, or damage that hides what was acknowledged.
	Beyond int
}

const (
	walHeader   = 32
	frameHeader = 24
)

// ReadWAL reads the write-ahead log at path; one that is not there has no frames.
func ReadWAL(path string) (w WAL, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, fmt.Errorf("read write-ahead log: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	var h [walHeader]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return w, ended(err) // empty: nothing was written since the last checkpoint
	}
	var order binary.ByteOrder = binary.BigEndian
	switch binary.BigEndian.Uint32(h[:]) {
	case 0x377f0682:
		order = binary.LittleEndian
	case 0x377f0683:
	default:
		return w, fmt.Errorf("read write-ahead log %s: it does not begin as one", path)
	}
	page := int64(binary.BigEndian.Uint32(h[8:]))
	if page < 512 || page > 65536 || page&(page-1) != 0 {
		return w, fmt.Errorf("read write-ahead log %s: pages of %d bytes", path, page)
	}
	salt := string(h[16:24])
	s0, s1 := walSum(order, 0, 0, h[:24])
	if s0 != binary.BigEndian.Uint32(h[24:]) || s1 != binary.BigEndian.Uint32(h[28:]) {
		return w, fmt.Errorf("read write-ahead log %s: its header is damaged", path)
	}
	b := make([]byte, frameHeader+page)
	for sound := true; ; {
		if _, err := io.ReadFull(r, b); err != nil {
			return w, ended(err)
		}
		same := string(b[8:16]) == salt
		if sound {
			t0, t1 := walSum(order, s0, s1, b[:8])
			t0, t1 = walSum(order, t0, t1, b[frameHeader:])
			if same && t0 == binary.BigEndian.Uint32(b[16:]) && t1 == binary.BigEndian.Uint32(b[20:]) {
				s0, s1 = t0, t1
				w.Frames++
				continue
			}
			sound = false
		}
		if same {
			w.Beyond++
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("read write-ahead log: %w", err)
}

// walSum is SQLite's check sum of a write-ahead log; len(b) is a multiple of 8.
func walSum(o binary.ByteOrder, s0, s1 uint32, b []byte) (uint32, uint32) {
	for ; len(b) >= 8; b = b[8:] {
		s0 += o.Uint32(b) + s1
		s1 += o.Uint32(b[4:]) + s0
	}
	return s0, s1
}
