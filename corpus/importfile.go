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

// eachRow reads values that follow one another, a line each or not, or the elements of
// one list; n is the line of a value that has one of its own, else its place. What is
// wrong with one line does not end the file. errNoValue: the file begins with a line that
// is not a value, nor does one begin there; nothing was given to do.
func eachRow(in *bufio.Reader, do func(n int, raw json.RawMessage, err error) error) error {
	first := true // nothing but blank lines so far
	for n := 1; ; n++ {
		line, err := readRow(in, first)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errRowLong) {
			return do(n, nil, err) // a file that ends in the middle of its packing
		}
		end := errors.Is(err, io.EOF)
		text := bytes.TrimSpace(line)
		switch {
		case first && (errors.Is(err, errRowLong) || len(text) > 0 && (!json.Valid(text) || text[0] == '[' && !isDialogue(text))):
			return eachValue(io.MultiReader(bytes.NewReader(line), in), do)
		case errors.Is(err, errRowLong):
			err = do(n, nil, errRowLong)
		case len(text) == 0:
			err = nil
		case !json.Valid(text):
			err = do(n, nil, errNotJSON)
		default:
			err, first = do(n, bytes.Clone(text), nil), false
		}
		if err != nil || end {
			return err
		}
	}
}

var (
	errNoValue = errors.New("the file begins with no JSON value")
	errNotJSON = errors.New("not JSON")
)

// eachLineOf reads a file whose first line is not a value, as lines: why is what was wrong
// with it as one document, and is all that is said where none is a value.
func eachLineOf(in *bufio.Reader, why error, do func(n int, raw json.RawMessage, err error) error) error {
	var wrong []int // lines before the first value
	found := false
	for n := 1; ; n++ {
		line, err := readRow(in, false)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errRowLong) {
			return do(n, nil, err)
		}
		end := errors.Is(err, io.EOF)
		text := bytes.TrimSpace(line)
		switch {
		case errors.Is(err, errRowLong):
			err = do(n, nil, errRowLong)
		case len(text) == 0:
			err = nil
		case !json.Valid(text) && !found && len(wrong) < maxImportErr:
			wrong, err = append(wrong, n), nil
		case !json.Valid(text):
			err = do(n, nil, errNotJSON)
		default:
			if !found {
				for _, w := range wrong {
					if err := do(w, nil, errNotJSON); err != nil {
						return err
					}
				}
			}
			found, err = true, do(n, bytes.Clone(text), nil)
		}
		if err == nil && end && !found {
			return do(1, nil, why)
		}
		if err != nil || end {
			return err
		}
	}
}

// eachValue reads a document that goes over several lines: one value, a list of
// them, or several after one another. A list of steps is one value.
func eachValue(in io.Reader, do func(n int, raw json.RawMessage, err error) error) error {
	dec := json.NewDecoder(io.LimitReader(in, 4<<30))
	n := 0
	give := func(raw json.RawMessage, err error) error {
		if err == nil && len(raw) > importLine {
			err = errRowLong
		}
		n++
		return do(n, raw, err)
	}
	for {
		var raw json.RawMessage
		err := nextValue(dec, give, &raw)
		switch {
		case errors.Is(err, io.EOF) && len(raw) == 0:
			return nil
		case err != nil && n == 0:
			return fmt.Errorf("%w: %w", errNoValue, err)
		case err != nil:
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
				return give(nil, fmt.Errorf("not JSON: %w", err))
			}
			return err
		}
	}
}

// nextValue gives the next value of a document, or the elements of the list that it is;
// seen is what it has read of them last. io.EOF with nothing seen ends the document.
func nextValue(dec *json.Decoder, give func(json.RawMessage, error) error, seen *json.RawMessage) error {
	if !listIsNext(dec) {
		if err := dec.Decode(seen); err != nil {
			return err
		}
		return give(*seen, nil)
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	var steps []json.RawMessage // of a dialogue
	for dec.More() {
		var x json.RawMessage
		if err := dec.Decode(&x); err != nil {
			*seen = json.RawMessage("[")
			return err
		}
		*seen = x
		if isStep(x) {
			steps = append(steps, x)
			continue
		}
		if err := give(x, nil); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		*seen = json.RawMessage("[")
		return err
	}
	if len(steps) == 0 {
		return nil
	}
	all, err := json.Marshal(steps)
	if err != nil {
		return err
	}
	return give(all, nil)
}

// listIsNext reports that the next value of a document begins a list.
func listIsNext(dec *json.Decoder) bool {
	if !dec.More() {
		return false
	}
	b := make([]byte, 1)
	r := dec.Buffered()
	for {
		if n, err := r.Read(b); n == 0 || err != nil {
			return false
		}
		if c := b[0]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c == '['
		}
	}
}

var errRowLong = fmt.Errorf("longer than %d bytes", MaxImportLine)

// importLine is MaxImportLine; tests shorten it.
var importLine = MaxImportLine

// readRow reads a line. What of a line is over the limit is passed over; with keep it
// is left to be read, and what was read comes with errRowLong.
func readRow(in *bufio.Reader, keep bool) ([]byte, error) {
	var buf []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if !long {
			buf = append(buf, part...)
		}
		if len(buf) > importLine {
			if keep {
				return buf, errRowLong
			}
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

// isDialogue reports that a list is one episode.
func isDialogue(raw []byte) bool {
	var steps []json.RawMessage
	return json.Unmarshal(raw, &steps) == nil && len(steps) > 0 && isStep(steps[0])
}

// isStep reports that an element of a list is a step of an episode: one with a completion.
func isStep(raw []byte) bool {
	var step struct {
		Completion json.RawMessage `json:"completion"`
	}
	return json.Unmarshal(raw, &step) == nil && len(step.Completion) > 0
}

// reward takes what a row says of its end. Its source is unknown.
func reward(r *Row, x *foreign) {
	var v float64
	switch {
	case x.Success != nil:
		if *x.Success {
			v = 1
		}
	case x.Score != nil:
		v = *x.Score
	case len(x.Reward) == 0 || json.Unmarshal(x.Reward, &v) != nil:
		return
	}
	solved := 0
	if v >= 1 {
		solved = 1
	}
	r.Reward.Outcome, r.Reward.Rule, r.Reward.Value = &solved, &v, &v
}
