package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/plain"
)

// What an attempt printed, with its times, in asciinema's form (asciicast v2): a
// header line, then a line [seconds, "o", text] for each piece.

// Bounds of a recording.
const (
	maxCast      = 1 << 20 // bytes of text
	castW, castH = 100, 30 // columns and lines: what boxes print has no terminal
)

// castPiece is what was printed at one time.
type castPiece struct {
	at   time.Time
	text string
}

// castOf reads the pieces of an output; nil: nobody knows its times. Output that
// the reader may not see has none.
func castOf(e agon.Event) (out []castPiece) {
	var o kind.Output
	if e.Type != agon.EventOutput || json.Unmarshal(e.Data, &o) != nil || len(o.Marks) == 0 {
		return nil
	}
	last := o.Marks[len(o.Marks)-1][0]
	from := int64(0)
	for _, m := range o.Marks {
		to := min(max(m[1], from), int64(len(o.Text)))
		// The event was written when the program had ended.
		out = append(out, castPiece{e.At.Add(time.Duration(m[0]-last) * time.Millisecond), o.Text[from:to]})
		from = to
	}
	return out
}

// screen is the text of pieces as a terminal gets it: nothing in it steers one.
func screen(s string) string {
	return strings.ReplaceAll(plain.Clean(s), "\n", "\r\n")
}

// cast sends the recording of an attempt.
func (s *server) cast(q *request) error {
	none := &agon.Error{Code: "not_found", Status: 404, Message: "There is no such recording."}
	n, ok := strings.CutSuffix(q.PathValue("file"), ".cast")
	attempt, err := strconv.Atoi(n)
	if !ok || err != nil || attempt < 1 {
		return none
	}
	r, err := s.cfg.Platform.Run(q.Context(), q.caller, q.PathValue("id"))
	if err != nil {
		return err
	}
	var pieces []castPiece
	size, seq := 0, int64(0)
	for read := 0; read < maxSearch && size < maxCast; {
		evs, err := s.cfg.Platform.Events(q.Context(), q.caller, r.Run.Run, attempt, seq, 500)
		if err != nil {
			return err
		}
		for _, e := range evs {
			if e.Attempt != attempt {
				evs = nil
				break
			}
			seq = e.Seq
			for _, p := range castOf(e) {
				if size += len(p.text); size <= maxCast {
					pieces = append(pieces, p)
				}
			}
		}
		if read += len(evs); len(evs) < 500 {
			break
		}
	}
	if len(pieces) == 0 {
		return none
	}
	b, err := writeCast(pieces, plain.Line(r.Arena)+" "+r.Run.Run)
	if err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", "application/x-asciicast")
	q.w.Header().Set("Content-Disposition", `attachment; filename="`+r.Run.Run+"-"+strconv.Itoa(attempt)+`.cast"`)
	q.w.WriteHeader(http.StatusOK)
	_, _ = q.w.Write(b) // a reader that has gone
	return nil
}

func writeCast(pieces []castPiece, title string) ([]byte, error) {
	begin := pieces[0].at
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"version": 2, "width": castW, "height": castH, "timestamp": begin.Unix(), "idle_time_limit": 2, "title": title}); err != nil {
		return nil, err
	}
	at := 0.0
	for _, p := range pieces {
		at = max(at, float64(p.at.Sub(begin).Milliseconds())/1000)
		if err := enc.Encode([]any{at, "o", screen(p.text)}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// terminal is what a run's page shows of a recording.
type terminal struct {
	Link string // of the recording
	Text string // all of it, or its end
	More bool   // there is more before
}

// terminalOf is the end of what was printed, and where its recording is; nil: there is none.
func terminalOf(evs []agon.Event) *terminal {
	var all strings.Builder
	var t *terminal
	for _, e := range evs {
		for _, p := range castOf(e) {
			if t == nil {
				t = &terminal{Link: "/runs/" + e.Run + "/cast/" + strconv.Itoa(e.Attempt) + ".cast"}
			}
			all.WriteString(p.text)
		}
	}
	if t == nil {
		return nil
	}
	s := all.String()
	if over := len(s) - maxBlock; over > 0 {
		s, t.More = strings.ToValidUTF8(s[over:], ""), true
	}
	t.Text, _ = text(s, maxBlock)
	return t
}
