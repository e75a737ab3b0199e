// Package archive keeps events and receipts of runs that ended long ago as Parquet in
// the blob store, where pages and `agon verify` read them as before (store.Archive).
//
// A file holds many runs, each in a row group of its own. Its columns are plain: any reader
// of Parquet shows them.
package archive

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// version names the form of the files.
const version = "agon-archive-1"

// row is a row of a file. Data is the JSON of an event's data, or of a receipt.
type row struct {
	Run     string `parquet:"run,dict"`
	What    string `parquet:"what,dict"` // event or receipt
	Attempt int64  `parquet:"attempt"`
	Seq     int64  `parquet:"seq"` // of an event; 0 of a receipt
	ID      string `parquet:"id"`  // of a receipt
	At      int64  `parquet:"at"`  // of an event, microseconds since 1970 UTC
	Task    string `parquet:"task,dict"`
	Type    string `parquet:"type,dict"` // of an event
	Data    string `parquet:"data"`
}

// What a row is.
const (
	isEvent   = "event"
	isReceipt = "receipt"
)

// maxRows bounds the rows of a run: the platform's limit of events, for some hundred attempts.
const maxRows = 8 << 20

// rowsOf lists the rows of a run.
func rowsOf(x *store.Trail) []row {
	out := make([]row, 0, len(x.Events)+len(x.Receipts))
	for _, e := range x.Events {
		out = append(out, row{Run: x.Run, What: isEvent, Attempt: int64(e.Attempt), Seq: e.Seq, At: e.At.UnixMicro(), Task: e.Task, Type: e.Type, Data: string(e.Data)})
	}
	for _, r := range x.Receipts {
		out = append(out, row{Run: x.Run, What: isReceipt, Attempt: int64(r.Attempt), ID: r.ID, Task: r.Task, Data: r.Body})
	}
	return out
}

// encode writes runs as a file, a row group each: the same runs give the same bytes.
func encode(runs []*store.Trail) ([]byte, error) {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("agon", version, ""))
	for _, x := range runs {
		if _, err := w.Write(rowsOf(x)); err != nil {
			return nil, fmt.Errorf("encode run %s: %w", x.Run, err)
		}
		if err := w.Flush(); err != nil {
			return nil, fmt.Errorf("encode run %s: %w", x.Run, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode archive: %w", err)
	}
	return b.Bytes(), nil
}

// decode reads the part of a file that a run has.
func decode(file []byte, part int, run string) (x *store.Trail, err error) {
	// The bytes have the digest that the store names, so a panic of the reader says that
	// the writer was wrong. It must not end a server.
	defer func() {
		if p := recover(); p != nil {
			x, err = nil, fmt.Errorf("decode archive: %v", p)
		}
	}()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("decode archive: %w", err)
	}
	groups := f.RowGroups()
	if part < 0 || part >= len(groups) {
		return nil, fmt.Errorf("decode archive: part %d of %d", part, len(groups))
	}
	if n := groups[part].NumRows(); n > maxRows {
		return nil, fmt.Errorf("decode archive: part %d has %d rows, the limit is %d", part, n, maxRows)
	}
	r := parquet.NewGenericRowGroupReader[row](groups[part])
	defer r.Close()
	x = &store.Trail{Run: run}
	for buf := make([]row, 256); ; {
		n, err := r.Read(buf)
		for _, y := range buf[:n] {
			if err := add(x, y); err != nil {
				return nil, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return x, nil
		case err != nil:
			return nil, fmt.Errorf("decode archive: %w", err)
		}
	}
}

func add(x *store.Trail, y row) error {
	if y.Run != x.Run {
		return fmt.Errorf("decode archive: a row of run %q among those of %s", y.Run, x.Run)
	}
	switch y.What {
	case isEvent:
		e := agon.Event{Run: y.Run, Attempt: int(y.Attempt), Task: y.Task, Seq: y.Seq, At: time.UnixMicro(y.At).UTC(), Type: y.Type}
		if y.Data != "" {
			e.Data = json.RawMessage(y.Data)
		}
		x.Events = append(x.Events, e)
	case isReceipt:
		x.Receipts = append(x.Receipts, store.ArchiveReceipt{Attempt: int(y.Attempt), ID: y.ID, Task: y.Task, Body: y.Data})
	default:
		return fmt.Errorf("decode archive: a row is %q, neither event nor receipt", y.What)
	}
	return nil
}

// same reports whether two trails hold the same rows.
func same(a, b *store.Trail) bool {
	return slices.Equal(rowsOf(a), rowsOf(b))
}

// marksOf collects the digests that runs name, sorted, 32 bytes each: what the rows kept
// from collection the file keeps as well.
func marksOf(runs []*store.Trail) []byte {
	seen := map[[32]byte]bool{}
	for _, x := range runs {
		for _, y := range rowsOf(x) {
			for _, text := range []string{y.Data, y.Task, y.ID, y.Type} {
				Digests(text, func(d [32]byte) { seen[d] = true })
			}
		}
	}
	all := make([][32]byte, 0, len(seen))
	for d := range seen {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	out := make([]byte, 0, 32*len(all))
	for _, d := range all {
		out = append(out, d[:]...)
	}
	return out
}

// hexLen is the length of a SHA-256 in hex.
const hexLen = 64

// Digests calls fn with every word of 64 hexadecimal digits in a text.
func Digests(text string, fn func([32]byte)) {
	start := -1
	for i := 0; i <= len(text); i++ {
		if i < len(text) && (text[i] >= '0' && text[i] <= '9' || text[i] >= 'a' && text[i] <= 'f') {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 && i-start == hexLen {
			var k [32]byte
			if _, err := hex.Decode(k[:], []byte(text[start:i])); err == nil {
				fn(k)
			}
		}
		start = -1
	}
}
