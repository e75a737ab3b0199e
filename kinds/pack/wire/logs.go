package wire

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
)

// Logs are of two kinds: archives that validators uploaded, and archives that
// agon makes of its own runs: one per validator, day and pack ("miner"), and
// one per validator and day ("cycle").

const (
	day          = 24 * time.Hour
	maxMemory    = 64 << 20 // of archives that were made and are kept
	maxSizes     = 50_000
	maxEvents    = 2_000 // of an attempt, that go into a log
	eventsAtOnce = 500
)

// logEntry is one archive as readers see it.
type logEntry struct {
	ID        string  `json:"id"`
	Validator string  `json:"validatorHotkey"`
	EvalID    string  `json:"evalId"`
	Type      string  `json:"logType"` // miner or cycle
	Miner     *string `json:"minerHotkey"`
	MinerUID  *uint16 `json:"minerUid"`
	PackHash  *string `json:"packHash"`
	Block     int64   `json:"blockHeight"`
	URL       string  `json:"gcsUrl"`
	Size      *int64  `json:"sizeBytes"`
	Created   *string `json:"createdAt"`

	at    time.Time
	made  func(ctx context.Context) ([]byte, error) // nil: uploaded
	final bool                                      // what is made does not change any more
}

// ours lists the archives that can be made of the arena's runs.
func (b *Backend) ours(s *snapshot) []*logEntry {
	var out []*logEntry
	cycles := map[string]*logEntry{}
	type line struct {
		e *entry
		p *play
	}
	lines := map[string][]line{}
	for _, e := range s.entries {
		packs := map[string]*logEntry{}
		plays := map[string][]*play{}
		for i := range e.plays {
			p := &e.plays[i]
			if p.validator == "" || p.at.IsZero() || !p.State.Final() {
				continue
			}
			id := fmt.Sprintf("%d.%s", p.at.Unix()/int64(day/time.Second), p.validator)
			c := cycles[id]
			if c == nil {
				c = &logEntry{ID: "cycle." + id, Validator: p.validator, EvalID: evalID(p.at), Type: "cycle"}
				cycles[id] = c
				out = append(out, c)
			}
			lines[id] = append(lines[id], line{e, p})
			if p.at.After(c.at) {
				c.at = p.at
			}
			if e.State != agon.SubmissionScored {
				continue // its logs are not public
			}
			l := packs[id]
			if l == nil {
				l = &logEntry{
					ID: "miner." + e.ID + "." + id, Validator: p.validator, EvalID: evalID(p.at), Type: "miner", Miner: &e.Miner, MinerUID: s.uid(e.Miner),
					PackHash: text(e.pack.Hash), final: true,
				}
				packs[id] = l
				out = append(out, l)
			}
			plays[id] = append(plays[id], p)
			if p.at.After(l.at) {
				l.at = p.at
			}
		}
		for id, l := range packs {
			l.made = func(ctx context.Context) ([]byte, error) { return b.minerArchive(ctx, s, e, plays[id], l.at) }
		}
	}
	for id, c := range cycles {
		c.made = func(context.Context) ([]byte, error) {
			var log strings.Builder
			list := lines[id]
			slices.SortStableFunc(list, func(x, y line) int { return x.p.at.Compare(y.p.at) })
			for _, l := range list {
				log.WriteString(runLine(s, l.e, l.p))
			}
			fmt.Fprintf(&log, "%s %s: %d runs\n", c.at.UTC().Format(time.RFC3339), c.Validator, len(list))
			return pack1(c.at, map[string][]byte{"validator.log": []byte(log.String())})
		}
	}
	for _, l := range out {
		l.Block, l.Created = s.block(l.at), stamp(l.at)
	}
	return out
}

// evalID names a validator's day as that system names its cycles.
func evalID(t time.Time) string {
	d := t.UTC().Truncate(day)
	return fmt.Sprintf("%s_w%d", d.Format("20060102_1504"), d.Unix()/int64(day/time.Second))
}

// runLine is one run in words. Everything in it is public.
func runLine(s *snapshot, e *entry, p *play) string {
	uid := "-"
	if n := s.uid(e.Miner); n != nil {
		uid = fmt.Sprint(*n)
	}
	what := string(p.State)
	if sc, ok := p.result(); ok {
		gate := "FAIL"
		if sc.Qualified {
			gate = "PASS"
		}
		what = fmt.Sprintf("score=%.4f gate=%s", sc.Score, gate)
		if sc.Cost != nil {
			what += fmt.Sprintf(" cost=$%.6f", *sc.Cost)
		}
	}
	if p.Fault != agon.FaultNone {
		what += " fault=" + string(p.Fault)
	}
	return fmt.Sprintf("%s Miner %s (%s): pack=%.10s scenario=%s %s\n", p.at.UTC().Format(time.RFC3339), uid, e.Miner, e.pack.Hash, p.scenario, what)
}

// minerArchive packs what the public may read of one pack's runs at one validator.
func (b *Backend) minerArchive(ctx context.Context, s *snapshot, e *entry, plays []*play, at time.Time) ([]byte, error) {
	files := map[string][]byte{}
	var log, agent bytes.Buffer
	type row struct {
		Scenario  string   `json:"scenario"`
		Qualified bool     `json:"qualified"`
		Score     float64  `json:"score"`
		Cost      *float64 `json:"cost"`
	}
	rows := []row{}
	var qualities []float64
	sum := 0.0
	for _, p := range plays {
		log.WriteString(runLine(s, e, p))
		if err := b.events(ctx, &log, p); err != nil {
			return nil, err
		}
		if sc, ok := p.result(); ok {
			rows, qualities, sum = append(rows, row{sc.Name, sc.Qualified, sc.Score, sc.Cost}), append(qualities, sc.Score), sum+sc.Score
		}
		left, err := b.evidence(ctx, p.evidence)
		if err != nil {
			fmt.Fprintf(&log, "no evidence of %s is public\n", p.scenario)
			continue
		}
		for from, to := range map[string]string{
			kindpack.FileCalls: "_calls.jsonl", kindpack.FileRequests: "_all_requests.jsonl", kindpack.FileConversation: "_conversation.jsonl", kindpack.FileEpisode: "_episode.json",
		} {
			if c, ok := left[from]; ok {
				files[p.scenario+to] = c
			}
		}
		if c := left[kindpack.FileLog]; len(c) > 0 {
			fmt.Fprintf(&agent, "--- %s\n%s\n", p.scenario, c)
		}
	}
	mean := 0.0
	if len(qualities) > 0 {
		mean = sum / float64(len(qualities))
	}
	meta, err := json.MarshalIndent(map[string]any{
		"scenario": "all", "final_score": mean, "mean_quality": mean, "delta": 0, "learning_bonus": 0, "episode_qualities": qualities,
		"miner_hotkey": e.Miner, "pack_hash": e.pack.Hash, "scenarios": rows,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("describe archive: %w", err)
	}
	files["validator.log"], files["miner.log"], files["metadata.json"] = log.Bytes(), agent.Bytes(), meta
	return pack1(at, files)
}

// events writes the log of an attempt, one line per event; what is withheld is left out.
func (b *Backend) events(ctx context.Context, w *bytes.Buffer, p *play) error {
	attempt, seq, n := p.n, int64(0), 0
	for n < maxEvents {
		list, err := b.cfg.Platform.Events(ctx, anybody, p.RunSpec.Run, attempt, seq, eventsAtOnce)
		if err != nil {
			return fmt.Errorf("read the log of %s: %w", p.RunSpec.Run, err)
		}
		for _, ev := range list {
			seq, n = ev.Seq, n+1
			if ev.Attempt != p.n {
				return nil
			}
			if len(ev.Data) > 0 && string(ev.Data) != `{"withheld":true}` {
				fmt.Fprintf(w, "%s %s %s\n", ev.At.UTC().Format(time.RFC3339), ev.Type, plain(string(ev.Data), 1000))
			}
		}
		if len(list) < eventsAtOnce {
			return nil
		}
	}
	return nil
}

// pack1 makes an archive: the same files at the same time make the same bytes.
func pack1(at time.Time, files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	tw := tar.NewWriter(gz)
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: at.Truncate(time.Second), Format: tar.FormatPAX}
		if err := tw.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := tw.Write(files[name]); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := errors.Join(tw.Close(), gz.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

// archives remembers what was made: sizes for long, bytes while there is room.
type archives struct {
	mu    sync.Mutex // guards below; held while one is made
	sizes map[string]int64
	bytes map[string][]byte
	held  int
}

// bytesOf makes an archive of ours, or remembers it.
func (a *archives) bytesOf(ctx context.Context, l *logEntry) ([]byte, error) {
	if !l.final {
		return l.made(ctx)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.bytes[l.ID]; ok {
		return c, nil
	}
	c, err := l.made(ctx)
	if err != nil {
		return nil, err
	}
	if a.bytes == nil || a.held+len(c) > maxMemory {
		a.bytes, a.held = map[string][]byte{}, 0
	}
	if a.sizes == nil || len(a.sizes) > maxSizes {
		a.sizes = map[string]int64{}
	}
	a.bytes[l.ID], a.sizes[l.ID], a.held = c, int64(len(c)), a.held+len(c)
	return c, nil
}

func (a *archives) size(ctx context.Context, l *logEntry) (*int64, error) {
	if l.made == nil {
		return l.Size, nil
	}
	a.mu.Lock()
	n, ok := a.sizes[l.ID]
	a.mu.Unlock()
	if ok && l.final {
		return &n, nil
	}
	c, err := a.bytesOf(ctx, l)
	if err != nil {
		return nil, err
	}
	n = int64(len(c))
	return &n, nil
}

// evalLogs lists archives, the newest first.
func (b *Backend) evalLogs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, ok := count(w, r, "limit", 50, 200)
	if !ok {
		return
	}
	offset, ok := count(w, r, "offset", 0, 1_000_000)
	if !ok {
		return
	}
	typ := q.Get("type")
	if typ != "" && typ != "miner" && typ != "cycle" {
		fail(w, http.StatusBadRequest, `type must be "miner" or "cycle"`)
		return
	}
	var from, to time.Time
	for name, at := range map[string]*time.Time{"from": &from, "to": &to} {
		if v := q.Get(name); v != "" {
			t, whole, ok := parseDate(v)
			if !ok {
				fail(w, http.StatusBadRequest, name+" must be an ISO 8601 date or time")
				return
			}
			if whole && name == "to" {
				t = t.Add(day - time.Millisecond) // a date ends with its day
			}
			*at = t
		}
	}
	s := b.with(w, r, "logs")
	if s == nil {
		return
	}
	validator := s.hotkeyOf(q.Get("validator"))
	list := b.allLogs(s)
	list = slices.DeleteFunc(list, func(l *logEntry) bool {
		return validator != "" && l.Validator != validator || q.Get("miner") != "" && or(l.Miner) != q.Get("miner") || typ != "" && l.Type != typ ||
			q.Get("eval_id") != "" && l.EvalID != q.Get("eval_id") || q.Get("pack_hash") != "" && or(l.PackHash) != q.Get("pack_hash") ||
			!from.IsZero() && l.at.Before(from) || !to.IsZero() && l.at.After(to)
	})
	list = list[min(offset, len(list)):]
	list = list[:min(limit, len(list))]
	out := []logEntry{}
	for _, l := range list {
		row := *l
		row.URL = b.base(r) + "/api/logs/" + l.ID + ".tar.gz"
		var err error
		if row.Size, err = b.archives.size(r.Context(), l); err != nil {
			b.broken(w, "log archive", err)
			return
		}
		out = append(out, row)
	}
	reply(w, http.StatusOK, map[string]any{"logs": out})
}

// hotkeyOf turns a uid into its hotkey: the readers' help offers both and sends either.
func (s *snapshot) hotkeyOf(v string) string {
	uid, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return v
	}
	for _, n := range s.graph.Neurons {
		if uint64(n.UID) == uid {
			return n.Hotkey
		}
	}
	return v
}

func (b *Backend) allLogs(s *snapshot) []*logEntry {
	list := append(b.ours(s), b.uploaded(s)...)
	slices.SortFunc(list, func(x, y *logEntry) int { return cmp.Or(y.at.Compare(x.at), cmp.Compare(x.ID, y.ID)) })
	return list
}

// parseDate reads an ISO 8601 date or time; whole says that it was a date.
func parseDate(s string) (t time.Time, whole, ok bool) {
	if len(s) > 40 {
		return t, false, false
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, true, true
	}
	s = strings.ReplaceAll(s, " ", "+") // a plus that was not encoded
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04"} {
		if t, err := time.Parse(form, s); err == nil {
			return t, false, true
		}
	}
	return t, false, false
}

// logFile serves one archive.
func (b *Backend) logFile(w http.ResponseWriter, r *http.Request) {
	id, ok := strings.CutSuffix(r.PathValue("file"), ".tar.gz")
	if !ok {
		fail(w, http.StatusNotFound, "Log not found")
		return
	}
	var content []byte
	var err error
	if strings.HasPrefix(id, uploadPrefix) {
		content, err = b.readUpload(r.Context(), id)
	} else {
		s := b.with(w, r, "log")
		if s == nil {
			return
		}
		for _, l := range b.ours(s) {
			if l.ID == id {
				content, err = b.archives.bytesOf(r.Context(), l)
				break
			}
		}
	}
	switch {
	case err != nil:
		b.broken(w, "log", err)
	case content == nil:
		fail(w, http.StatusNotFound, "Log not found")
	default:
		h := w.Header()
		h.Set("Content-Type", "application/gzip")
		h.Set("Content-Disposition", "attachment")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(content) // a client that is gone reads no error
	}
}
