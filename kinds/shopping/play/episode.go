package play

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/agon-arena/agon/internal/plain"
)

// How a problem ended (spec/oro.md 3.2).
const (
	StatusSuccess  = "SUCCESS" // the agent returned, whatever
	StatusFailed   = "FAILED"
	StatusTimedOut = "TIMED_OUT"
)

// Limits of an episode.
const (
	MaxEpisode = 16 << 20 // bytes of its JSON
	// MaxRun bounds the episodes of one run together, packed: evidence has to be stored.
	MaxRun   = 192 << 20
	MaxSteps = 10_000
	maxDepth = 200 // of nested values
)

// Failure is why a problem has no episode. Foreign text, cut.
type Failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Envelope is what became of one problem.
type Envelope struct {
	ProblemID string          `json:"problem_id"`
	Status    string          `json:"status"`
	Seconds   float64         `json:"execution_time"` // measured outside the box
	Failed    int             `json:"inference_failure_count"`
	Calls     int             `json:"inference_total"`
	Error     *Failure        `json:"error"`
	Dialogue  json.RawMessage `json:"dialogue"` // list of steps, or null
}

// readFrame reads what a child wrote to its pipe: "agon-episode N\n", N bytes
// of JSON, a line feed, nothing else. An unfinished write, or another's bytes
// beside it, is not a frame: half an episode is never taken for a whole one.
func readFrame(b []byte) (body []byte, err error) {
	rest, ok := bytes.CutPrefix(b, []byte("agon-episode "))
	head, body, ok2 := bytes.Cut(rest, []byte("\n"))
	if !ok || !ok2 {
		return nil, fmt.Errorf("the process's result is not a frame")
	}
	n, err := strconv.Atoi(string(head))
	switch {
	case err != nil || n < 0:
		return nil, fmt.Errorf("the process's result is not a frame")
	case n > MaxEpisode:
		return nil, fmt.Errorf("the episode has %d bytes, the limit is %d", n, MaxEpisode)
	case len(body) != n+1 || body[n] != '\n':
		return nil, fmt.Errorf("the process's result broke off: %d of %d bytes", max(0, len(body)-1), n)
	}
	return body[:n], nil
}

// readEpisode understands a child's answer. Whatever is wrong with it is the
// agent's failure, told at once with its reason.
func readEpisode(e *Envelope, b []byte) {
	fail := func(typ, format string, args ...any) {
		e.Status, e.Dialogue = StatusFailed, nil
		e.Error = &Failure{plain.Short(typ, 100), plain.Short(fmt.Sprintf(format, args...), 1000)}
	}
	body, err := readFrame(b)
	if err != nil {
		fail("RuntimeError", "%v", err)
		return
	}
	if err := shallow(body); err != nil {
		fail("ValueError", "%v", err)
		return
	}
	var in struct {
		Status   string          `json:"status"`
		Error    *Failure        `json:"error"`
		Dialogue json.RawMessage `json:"dialogue"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		fail("ValueError", "the result is not a JSON object of the runner: %v", err)
		return
	}
	switch in.Status {
	case StatusSuccess:
	case StatusFailed:
		if in.Error == nil {
			in.Error = &Failure{}
		}
		fail(in.Error.Type, "%s", in.Error.Message)
		return
	default:
		fail("ValueError", "the result's status is %.40q", in.Status)
		return
	}
	e.Status = StatusSuccess
	if len(in.Dialogue) == 0 || in.Dialogue[0] != '[' {
		e.Dialogue = nil // only a list is an episode: nothing is scored
		return
	}
	if why := checkSteps(in.Dialogue); why != "" {
		fail("ValueError", "%s", why)
		return
	}
	e.Dialogue = in.Dialogue
}

// shallow refuses what nests so deep that a reader could run out of stack.
func shallow(b []byte) error {
	depth, text := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("the episode is nested deeper than %d", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// checkSteps says what makes an episode unreadable for scoring, "" if nothing:
// a step that is not an object, a last step without a message. Odd parts of a
// message are scored as they are.
func checkSteps(dialogue []byte) string {
	var steps []json.RawMessage
	if err := json.Unmarshal(dialogue, &steps); err != nil {
		return "the episode is not a list: " + err.Error()
	}
	if len(steps) > MaxSteps {
		return fmt.Sprintf("the episode has %d steps, the limit is %d", len(steps), MaxSteps)
	}
	for i, raw := range steps {
		if raw[0] != '{' {
			return fmt.Sprintf("step %d of the episode is not an object", i+1)
		}
	}
	if len(steps) == 0 {
		return ""
	}
	part := func(raw json.RawMessage, name string) json.RawMessage {
		var m map[string]json.RawMessage // a struct would take other spellings of the name as well
		if json.Unmarshal(raw, &m) != nil || len(m[name]) == 0 || m[name][0] != '{' {
			return nil
		}
		return m[name]
	}
	completion := part(steps[len(steps)-1], "completion")
	if completion == nil {
		return fmt.Sprintf("the last step (%d) has no completion", len(steps))
	}
	if part(completion, "message") == nil {
		return fmt.Sprintf("the last step (%d) has no completion.message", len(steps))
	}
	return ""
}

// Names of a record's files, by the problem's place in its run.
func episodeFile(i int) string  { return fmt.Sprintf("episodes/%03d.json.gz", i) }
func evidenceFile(i int) string { return fmt.Sprintf("evidence/%03d.json", i) }

// pack writes a value as a file of a record: the same bytes every time.
func pack(v any) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	enc := json.NewEncoder(z)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

// ReadEnvelope reads what pack wrote of a problem.
func ReadEnvelope(b []byte) (Envelope, error) {
	var e Envelope
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return e, fmt.Errorf("read episode: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, MaxEpisode+(1<<20)))
	if err != nil {
		return e, fmt.Errorf("read episode: %w", err)
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("read episode: %w", err)
	}
	if string(e.Dialogue) == "null" {
		e.Dialogue = nil
	}
	return e, nil
}
