package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Bounds of a file of Parquet, whose reader makes room for what the file says.
const (
	maxParquet    = 1 << 30
	maxPages      = 4 << 30   // bytes of all columns, unpacked, as the file says
	maxPageHeader = 256 << 10 // it may hold the least and the greatest value of its page
)

// parquetRows reads the rows of a file of flat columns and lists.
func parquetRows(f *os.File, each func(int, map[string]any) error) (err error) {
	defer func() {
		if r := recover(); r != nil { // the reader trusts offsets of the file
			err = fmt.Errorf("read parquet: %v", r)
		}
	}()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() > maxParquet {
		return fmt.Errorf("read parquet: %d bytes, at most %d", fi.Size(), maxParquet)
	}
	if err := checkFooter(f, fi.Size()); err != nil {
		return fmt.Errorf("read parquet: %w", err)
	}
	p, err := parquet.OpenFile(f, fi.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("read parquet: %w", err)
	}
	if p.NumRows() > MaxTasks {
		return fmt.Errorf("read parquet: %d rows, at most %d", p.NumRows(), MaxTasks)
	}
	if err := checkPages(f, fi.Size(), p.Metadata().RowGroups); err != nil {
		return fmt.Errorf("read parquet: %w", err)
	}
	r := parquet.NewGenericReader[any](p, p.Schema())
	defer r.Close()
	rows := make([]any, 16)
	for n := 1; ; {
		k, err := r.Read(rows)
		for _, v := range rows[:k] {
			m, ok := v.(map[string]any)
			if !ok {
				return errors.New("read parquet: rows are not records")
			}
			if err := each(n, m); err != nil {
				return err
			}
			n++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read parquet: %w", err)
		}
	}
}

// checkFooter asks whether the description of the columns, at the end of a file of size bytes, lies in it
// (https://parquet.apache.org/docs/file-format/).
func checkFooter(f io.ReaderAt, size int64) error {
	end := make([]byte, 8)
	if size < 12 {
		return errors.New("the file has no end")
	}
	if _, err := f.ReadAt(end, size-8); err != nil {
		return err
	}
	if n := int64(binary.LittleEndian.Uint32(end)); string(end[4:]) != "PAR1" || n > size-12 {
		return fmt.Errorf("its last bytes %q say not where the columns are described", end)
	}
	return nil
}

// checkPages asks whether all pages of all columns lie in their columns and hold, unpacked, no more than these say.
func checkPages(f io.ReaderAt, size int64, groups []format.RowGroup) error {
	total := int64(0)
	for _, g := range groups {
		for _, c := range g.Columns {
			m := c.MetaData
			if total += m.TotalUncompressedSize; m.TotalUncompressedSize < 0 || total > maxPages {
				return fmt.Errorf("its pages say that they hold more than %d bytes", int64(maxPages))
			}
			at, left := m.DataPageOffset, m.TotalUncompressedSize
			if d := m.DictionaryPageOffset; d > 0 && d < at {
				at = d
			}
			end := at + m.TotalCompressedSize
			if at < 4 || end < at || end > size {
				return fmt.Errorf("column %.100q lies at %d to %d of %d bytes", m.PathInSchema, at, end, size)
			}
			for at < end {
				h, n, err := pageHeader(f, at, end)
				if err != nil {
					return fmt.Errorf("page of column %.100q at %d: %w", m.PathInSchema, at, err)
				}
				packed, unpacked := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
				if left -= unpacked; packed < 0 || unpacked < 0 || left < 0 || at+n+packed > end {
					return fmt.Errorf("page of column %.100q at %d: %d bytes, unpacked %d, are more than its column's", m.PathInSchema, at, packed, unpacked)
				}
				at += n + packed
			}
		}
	}
	return nil
}

// pageHeader reads the header of the page at at, which ends before end. n is its length.
func pageHeader(f io.ReaderAt, at, end int64) (h format.PageHeader, n int64, err error) {
	r := new(thrift.CompactProtocol).NewReader(io.NewSectionReader(f, at, min(end-at, maxPageHeader)))
	if err := thrift.NewDecoder(r).Decode(&h); err != nil {
		return h, 0, err
	}
	return h, int64(r.BytesRead()), nil
}
