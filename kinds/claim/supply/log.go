package supply

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/agon-arena/agon"
)

// Entry is one line of a log: something that came from outside, or a decision.
type Entry struct {
	N  int    `json:"n"`
	Op string `json:"op"` // start, propose, reference, audit, repair, champion, done
	// Key names a question; the answer to the same question is the same.
	Key    string          `json:"key,omitempty"`
	Answer json.RawMessage `json:"answer,omitempty"`
	Model  string          `json:"model,omitempty"` // that answered
	Note   string          `json:"note,omitempty"`
	Cost   agon.Micros     `json:"cost_micros,omitempty"`
}

const (
	maxLog  = 512 << 20
	maxLine = 16 << 20
)

// Log is append-only: JSON lines, each synced before it is acted upon. A line
// that a crash cut off is dropped on opening.
type Log struct {
	f       *os.File // nil: read-only
	answers map[string]json.RawMessage
	models  map[string]string // who answered, by key
	start   json.RawMessage
	n       int
	spent   agon.Micros // of entries that were read
}

// OpenLog opens or makes the log at path. With replay nothing is written, and
// a question that the log does not answer is an error.
func OpenLog(path string, replay bool) (*Log, error) {
	flag := os.O_RDWR | os.O_CREATE | os.O_APPEND
	if replay {
		flag = os.O_RDONLY
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{answers: map[string]json.RawMessage{}, models: map[string]string{}}
	good, err := l.read(f)
	if err == nil && !replay {
		if err = f.Truncate(good); err == nil {
			l.f = f
			return l, nil
		}
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return l, nil
}

// read takes over whole lines and returns where the last one ends.
func (l *Log) read(r io.Reader) (int64, error) {
	br := bufio.NewReaderSize(io.LimitReader(r, maxLog+1), 64<<10)
	good := int64(0)
	for {
		line, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return good, nil // what stands after the last line break was never acted upon
		}
		if err != nil {
			return 0, err
		}
		if good += int64(len(line)); len(line) > maxLine || good > maxLog {
			return 0, errors.New("it is too large")
		}
		var e Entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil || e.N != l.n+1 {
			return 0, fmt.Errorf("line %d is not an entry of this log", l.n+1)
		}
		l.n++
		l.spent += e.Cost
		if e.Op == "start" {
			l.start = e.Answer
		} else if e.Key != "" {
			l.answers[e.Key], l.models[e.Key] = e.Answer, e.Model
		}
	}
}

// Spent is what the answers in the log have cost.
func (l *Log) Spent() agon.Micros { return l.spent }

// Feed is the feed that the making's claims name: that of the log, or fresh for a new one.
func (l *Log) Feed(fresh string) string {
	var s struct {
		Feed string `json:"feed"`
	}
	if l.start == nil || json.Unmarshal(l.start, &s) != nil {
		return fresh
	}
	return s.Feed
}

// audits reports whether the making had an auditor.
func (l *Log) audits() bool {
	var s struct {
		Prompts []string `json:"prompts"`
	}
	return json.Unmarshal(l.start, &s) == nil && slices.Contains(s.Prompts, auditPrompt().ID())
}

// ChampionID is the champion that the log was begun with, "" for none.
func (l *Log) ChampionID() string {
	var s struct {
		Champion string `json:"champion"`
	}
	if json.Unmarshal(l.start, &s) != nil {
		return ""
	}
	return s.Champion
}

// append writes an entry and syncs it.
func (l *Log) append(e Entry) error {
	l.n++
	e.N = l.n
	if e.Key != "" {
		l.answers[e.Key], l.models[e.Key] = e.Answer, e.Model
	}
	l.spent += e.Cost
	if l.f == nil {
		return nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	if _, err := l.f.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	if err := l.f.Sync(); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}
