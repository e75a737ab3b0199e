package corpus

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// unpacked reads a file by the bytes that it begins with.
func unpacked(in *bufio.Reader) (*bufio.Reader, error) {
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case len(head) > 1 && head[0] == 0x1f && head[1] == 0x8b:
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		return bufio.NewReaderSize(z, 1<<20), nil
	case string(head) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
		return bufio.NewReaderSize(z, 1<<20), nil
	case string(head) == "PAR1":
		return nil, errors.New("a file of Parquet is not read: write it as JSON lines first (datasets: to_json)")
	}
	return in, nil
}

// eachRow reads values that follow one another, a line each or not, or the
// elements of one list. What is wrong with one line does not end the file.
func eachRow(in *bufio.Reader, do func(n int, raw json.RawMessage, err error) error) error {
	n := 0
	for {
		line, err := readRow(in)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errRowLong) {
			n++
			return do(n, nil, err) // a file that ends in the middle of its packing
		}
		end := errors.Is(err, io.EOF)
		text := bytes.TrimSpace(line)
		switch {
		case errors.Is(err, errRowLong):
			n++
			err = do(n, nil, errRowLong)
		case len(text) == 0:
			err = nil
		case n == 0 && !json.Valid(text):
			return eachValue(io.MultiReader(bytes.NewReader(append(bytes.Clone(line), '\n')), in), do)
		case n == 0 && text[0] == '[':
			return eachValue(io.MultiReader(bytes.NewReader(text), in), do)
		case !json.Valid(text):
			n++
			err = do(n, nil, errors.New("not JSON"))
		default:
			n++
			err = do(n, bytes.Clone(text), nil)
		}
		if err != nil {
			return err
		}
		if end {
			return nil
		}
	}
}

// eachValue reads a document that goes over several lines: one value, a list of
// them, or several after one another.
func eachValue(in io.Reader, do func(n int, raw json.RawMessage, err error) error) error {
	dec := json.NewDecoder(io.LimitReader(in, 4<<30))
	for n := 1; ; {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return do(n, nil, fmt.Errorf("not JSON: %w", err))
		}
		list := []json.RawMessage{raw}
		if raw[0] == '[' && !isDialogue(raw) && json.Unmarshal(raw, &list) != nil {
			return do(n, nil, errors.New("not a list"))
		}
		for _, x := range list {
			if err := do(n, x, nil); err != nil {
				return err
			}
			n++
		}
	}
}

var errRowLong = fmt.Errorf("longer than %d bytes", MaxImportLine)

func readRow(in *bufio.Reader) ([]byte, error) {
	var buf []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if !long {
			buf = append(buf, part...)
		}
		if len(buf) > MaxImportLine {
			long, buf = true, nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errRowLong
		default:
			return buf, err
		}
	}
}

// isDialogue reports that a list is one episode: steps with a completion.
func isDialogue(raw []byte) bool {
	var steps []struct {
		Completion json.RawMessage `json:"completion"`
	}
	return json.Unmarshal(raw, &steps) == nil && len(steps) > 0 && len(steps[0].Completion) > 0
}
