package consensus

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

// Bounds of what a reporter sends and keeps.
const (
	heartbeatEvery = 10 * time.Minute
	reportTime     = 10 * time.Second
	uploadTime     = 30 * time.Second
	maxUpload      = 10 << 20 // of an archive; a larger one is not sent
	maxReports     = 1_000    // that wait
	maxAnswers     = 10_000   // of pre-evaluation, remembered
)

// Report is what a validator tells of one pack.
type Report struct {
	Miner      string
	UID        uint16
	Block      uint64
	Window     int64
	Hash, URL  string
	Evaluation Evaluation
	// Stage and Detail say where a pack was refused and why; empty: it was played.
	Stage, Detail string
}

// ReporterConfig is what a reporter is made of. URL, Signer and Dir are needed.
type ReporterConfig struct {
	URL            string // of the server, without a slash at its end
	Signer         auth.Signer
	Dir            string // logs that were not taken yet, and markers of those that were
	Version, Model string
	Client         *http.Client
	Now            func() time.Time
	Log            *slog.Logger
}

// Reporter tells a server of such arenas what a validator does: heartbeats,
// reports of packs, logs. Nothing is decided there: a server that is down
// changes nothing, and logs go again at the next start. Its methods may be
// called from one goroutine; sending is another's.
type Reporter struct {
	cfg  ReporterConfig
	jobs chan func(context.Context)
	stop context.CancelFunc
	done sync.WaitGroup
	beat time.Time // of the last heartbeat

	mu      sync.Mutex                // guards below
	answers map[[2]string]preEvalSaid // by miner and pack
}

type preEvalSaid struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
}

// NewReporter starts a reporter, which first sends the logs of today and
// yesterday that no server has taken. Close ends it.
func NewReporter(c ReporterConfig) (*Reporter, error) {
	if c.URL == "" || c.Signer == nil || c.Dir == "" {
		return nil, errors.New("reporter: URL, Signer and Dir are needed")
	}
	c.URL = strings.TrimRight(c.URL, "/")
	if c.Client == nil {
		c.Client = &http.Client{Timeout: uploadTime}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Reporter{cfg: c, jobs: make(chan func(context.Context), maxReports), stop: cancel, answers: map[[2]string]preEvalSaid{}}
	r.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case job := <-r.jobs:
				job(ctx)
			}
		}
	})
	r.later(func(ctx context.Context) { r.replay(ctx) })
	return r, nil
}

// Close ends the reporter. What was not sent is dropped, but for logs.
func (r *Reporter) Close() {
	r.stop()
	r.done.Wait()
}

// Flush waits until everything so far was tried.
func (r *Reporter) Flush(ctx context.Context) error {
	done := make(chan struct{})
	r.later(func(context.Context) { close(done) })
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
		return nil
	}
}

// later has a job done by and by; where too many wait, it is dropped.
func (r *Reporter) later(job func(context.Context)) {
	select {
	case r.jobs <- job:
	default:
		r.cfg.Log.Warn("a report is dropped: too many wait")
	}
}

// sign makes the fields that every signed message has.
func (r *Reporter) sign(purpose, field string) (map[string]any, error) {
	ts := r.cfg.Now().Unix()
	sig, err := r.cfg.Signer.Sign(signin.Message(purpose, r.cfg.Signer.SS58(), strconv.FormatInt(ts, 10)))
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", purpose, err)
	}
	return map[string]any{field: r.cfg.Signer.SS58(), "timestamp": ts, "signature": "0x" + hex.EncodeToString(sig)}, nil
}

func (r *Reporter) post(ctx context.Context, path, ctype string, body io.Reader, wait time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.cfg.URL+path, body)
	if err != nil {
		return nil, fmt.Errorf("post %s: %w", path, err)
	}
	req.Header.Set("Content-Type", ctype)
	resp, err := r.cfg.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("post %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.200q", resp.StatusCode, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("post %s: %w", path, err)
	}
	return raw, nil
}

func (r *Reporter) postJSON(ctx context.Context, path string, fields map[string]any) ([]byte, error) {
	b, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	return r.post(ctx, path, "application/json", bytes.NewReader(b), reportTime)
}

// Beat sends a heartbeat, at most one in ten minutes. Times may be zero.
func (r *Reporter) Beat(lastEval, lastWeights time.Time) {
	now := r.cfg.Now()
	if !r.beat.IsZero() && now.Sub(r.beat) < heartbeatEvery {
		return
	}
	r.beat = now
	r.later(func(ctx context.Context) {
		f, err := r.sign("trajectoryrl-heartbeat", "hotkey")
		if err == nil {
			f["version"], f["bench_version"], f["llm_model"] = r.cfg.Version, r.cfg.Version, r.cfg.Model
			for name, at := range map[string]time.Time{"last_eval_at": lastEval, "last_set_weights_at": lastWeights} {
				if !at.IsZero() {
					f[name] = at.Unix()
				}
			}
			_, err = r.postJSON(ctx, "/api/validators/heartbeat", f)
		}
		r.said("heartbeat", err)
	})
}

func (r *Reporter) said(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		r.cfg.Log.Warn("telling the server", "what", what, "err", err)
	}
}

// Admit asks whether a pack may be played. A server that does not answer keeps
// nobody out: then its last answer for the pack holds, or everything may be.
func (r *Reporter) Admit(ctx context.Context, miner, hash, url string) (refused string) {
	key := [2]string{miner, hash}
	f, err := r.sign("trajectoryrl-report", "validator_hotkey")
	var raw []byte
	if err == nil {
		f["miner_hotkey"], f["pack_hash"], f["pack_url"] = miner, hash, url
		raw, err = r.postJSON(ctx, "/api/miners/pre-eval", f)
	}
	var in struct {
		Allowed *bool  `json:"allowed"`
		Reason  string `json:"reason"`
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	said, known := r.answers[key]
	if err == nil && json.Unmarshal(raw, &in) == nil && in.Allowed != nil {
		if len(r.answers) >= maxAnswers {
			clear(r.answers)
		}
		said, known = preEvalSaid{*in.Allowed, in.Reason}, true
		r.answers[key] = said
	} else {
		r.said("pre-evaluation", err)
	}
	if !known || said.Allowed {
		return ""
	}
	if said.Reason == "" {
		return "refused"
	}
	return said.Reason[:min(len(said.Reason), 80)]
}

func round4(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// Tell reports a pack, and keeps its logs until the server has them.
func (r *Reporter) Tell(x Report) {
	id := fmt.Sprintf("%s_w%d", r.cfg.Now().UTC().Format("20060102_1504"), x.Window)
	meta := map[string]string{
		"eval_id": id, "miner_hotkey": x.Miner, "miner_uid": strconv.Itoa(int(x.UID)), "block_height": strconv.FormatUint(x.Block, 10), "pack_hash": x.Hash,
	}
	at := ""
	if x.Stage == "" && len(x.Evaluation.Logs) > 0 {
		var err error
		if at, err = r.keep(id, meta, x.Evaluation.Logs); err != nil {
			r.cfg.Log.Warn("keeping the logs of a pack", "err", err)
		}
	}
	r.later(func(ctx context.Context) {
		f, err := r.sign("trajectoryrl-submit", "validator_hotkey")
		if err == nil {
			_, err = r.postJSON(ctx, "/api/scores/submit", r.score(f, x))
		}
		r.said("report", err)
		if err == nil && at != "" {
			r.said("logs", r.upload(ctx, at))
		}
	})
}

// score fills the fields of a report.
func (r *Reporter) score(f map[string]any, x Report) map[string]any {
	e := x.Evaluation
	var weight, passed, cost, costed float64
	results := map[string]any{}
	for _, s := range e.Scenarios {
		one := map[string]any{"score": s.Score, "weight": s.Weight, "qualified": s.Qualified}
		if s.Cost > 0 {
			one["cost"], one["raw_cost"] = round4(s.Cost), round4(s.Cost)
			cost, costed = cost+s.Weight*s.Cost, costed+s.Weight
		}
		if weight += s.Weight; s.Qualified {
			passed += s.Weight
		}
		results[s.Name] = one
	}
	score := 0.0
	if weight > 0 {
		score = round4(passed / weight)
	}
	for k, v := range map[string]any{
		"miner_hotkey": x.Miner, "miner_uid": x.UID, "block_height": x.Block, "version": r.cfg.Version, "weight": 0, "pack_hash": x.Hash, "pack_url": x.URL, "llm_model": r.cfg.Model,
		"scoring_version": Scoring, "score": score, "ema_score": score, "qualified": e.Qualified,
	} {
		f[k] = v
	}
	if costed > 0 {
		f["cost"], f["ema_cost"] = round4(cost/costed), round4(cost/costed)
	}
	if x.Stage != "" {
		f["score"], f["ema_score"], f["qualified"], f["rejected"], f["rejection_stage"], f["rejection_detail"] = 0, 0, false, true, x.Stage, x.Detail
	} else {
		f["scenario_results"] = results
	}
	return f
}

// Cycle keeps the log of a whole cycle, and sends it.
func (r *Reporter) Cycle(window int64, block uint64, log []byte) {
	id := fmt.Sprintf("%s_w%d", r.cfg.Now().UTC().Format("20060102_1504"), window)
	at, err := r.keep(id, map[string]string{"eval_id": id, "block_height": strconv.FormatUint(block, 10)}, map[string][]byte{"validator.log": log})
	if err != nil {
		r.cfg.Log.Warn("keeping the log of a cycle", "err", err)
		return
	}
	r.later(func(ctx context.Context) { r.said("cycle log", r.upload(ctx, at)) })
}

// Names of the files beside logs.
const (
	metaFile      = "upload_meta.json"
	cycleMetaFile = "cycle_upload_meta.json"
	markerFile    = ".uploaded"
	cycleMarker   = ".cycle_uploaded"
)

var logName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}$`)

// keep writes logs below Dir/evals/ID: of a miner in a folder of its own.
func (r *Reporter) keep(id string, meta map[string]string, files map[string][]byte) (dir string, err error) {
	dir = filepath.Join(r.cfg.Dir, "evals", id)
	name := cycleMetaFile
	if miner := meta["miner_hotkey"]; miner != "" {
		dir, name = filepath.Join(dir, miner[:min(len(miner), 16)]), metaFile
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep logs: %w", err)
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !logName().MatchString(file) {
			return "", fmt.Errorf("keep logs: bad name %.80q", file)
		}
		if err := writeAtomic(filepath.Join(dir, file), files[file]); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(meta)
	if err != nil {
		return "", fmt.Errorf("keep logs: %w", err)
	}
	return dir, writeAtomic(filepath.Join(dir, name), b)
}

// upload sends the logs of a folder, and marks it.
func (r *Reporter) upload(ctx context.Context, dir string) error {
	path, metaName, marker, part := "/api/validators/logs/upload", metaFile, markerFile, "logs.tar.gz"
	b, err := os.ReadFile(filepath.Join(dir, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		path, metaName, marker, part = "/api/validators/logs/cycle", cycleMetaFile, cycleMarker, "cycle.tar.gz"
		b, err = os.ReadFile(filepath.Join(dir, metaName))
	}
	if err != nil {
		return fmt.Errorf("upload logs: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, marker)); err == nil {
		return nil
	}
	var meta map[string]string
	if err := json.Unmarshal(b, &meta); err != nil {
		return fmt.Errorf("upload logs: read %s: %w", metaName, err)
	}
	archive, err := packLogs(dir)
	if err != nil {
		return err
	}
	if len(archive) > maxUpload {
		return fmt.Errorf("upload logs: %d bytes, at most %d", len(archive), maxUpload)
	}
	f, err := r.sign("trajectoryrl-logs", "validator_hotkey")
	if err != nil {
		return err
	}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for k, v := range f {
		meta[k] = fmt.Sprint(v)
	}
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		if err := w.WriteField(k, meta[k]); err != nil {
			return fmt.Errorf("upload logs: %w", err)
		}
	}
	p, err := w.CreatePart(map[string][]string{"Content-Disposition": {fmt.Sprintf(`form-data; name="log_archive"; filename=%q`, part)}, "Content-Type": {"application/gzip"}})
	if err == nil {
		_, err = p.Write(archive)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("upload logs: %w", err)
	}
	if _, err := r.post(ctx, path, w.FormDataContentType(), &body, uploadTime); err != nil {
		return err
	}
	return writeAtomic(filepath.Join(dir, marker), nil)
}

// packLogs makes the archive of a folder's files.
func packLogs(dir string) ([]byte, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("pack logs: %w", err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, e := range list {
		if !e.Type().IsRegular() || !logName().MatchString(e.Name()) || e.Name() == metaFile || e.Name() == cycleMetaFile {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			err = t.WriteHeader(&tar.Header{Name: e.Name(), Mode: 0o644, Size: int64(len(b)), Format: tar.FormatPAX})
		}
		if err == nil {
			_, err = t.Write(b)
		}
		if err != nil {
			return nil, fmt.Errorf("pack logs: %w", err)
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("pack logs: %w", err)
	}
	return out.Bytes(), nil
}

// replay sends what an earlier process could not, of today and yesterday.
// Older logs are removed: the disk is not theirs for ever.
func (r *Reporter) replay(ctx context.Context) {
	base := filepath.Join(r.cfg.Dir, "evals")
	list, err := os.ReadDir(base)
	if err != nil {
		return // there are none
	}
	now := r.cfg.Now().UTC()
	today, yesterday := now.Format("20060102"), now.AddDate(0, 0, -1).Format("20060102")
	for _, e := range list {
		dir := filepath.Join(base, e.Name())
		day, _, _ := strings.Cut(e.Name(), "_")
		if day != today && day != yesterday {
			if err := os.RemoveAll(dir); err != nil {
				r.cfg.Log.Warn("removing old logs", "err", err)
			}
			continue
		}
		dirs := []string{dir}
		if subs, err := os.ReadDir(dir); err == nil {
			for _, s := range subs {
				if s.IsDir() {
					dirs = append(dirs, filepath.Join(dir, s.Name()))
				}
			}
		}
		for _, d := range dirs {
			if ctx.Err() != nil {
				return
			}
			if err := r.upload(ctx, d); err != nil && !errors.Is(err, fs.ErrNotExist) {
				r.said("logs", err)
			}
		}
	}
}
