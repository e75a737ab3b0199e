package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/shopping/door"
	"github.com/agon-arena/agon/sandbox"
)

// AgentFile is the only file of a submission.
const AgentFile = "agent.py"

// OutcomeFailed is the outcome of a problem without an episode, which is worth 0, and of a
// run that has no other. A run with one episode is agon.OutcomeOK.
const OutcomeFailed = "failed"

// Times of spec/oro.md 1.4.
const (
	problemWall = 300 * time.Second
	suiteWall   = 1800 * time.Second
)

// Places inside a box.
const (
	agentDir  = "/app/agent"
	logsDir   = "/app/logs"
	proxyDoor = "127.0.0.1:80"
	proxyURL  = "http://proxy:80"
	tmpBytes  = 256 << 20
)

// nonceField is where replies carry the marks of the tool calls in them.
const nonceField = "oro_metadata"

// Dialects implements kind.Speaker. What ORO's proxy refuses OpenAI's routes do
// not open: they stand behind it.
func (k *Kind) Dialects() []string { return []string{door.ORO, gateway.DialectOpenAI} }

// played is what became of one problem.
type played struct {
	env Envelope
	ev  *Evidence
}

// Play gives every problem of the run a box, a directory and a session at the
// gateway of its own, so that nothing of one can be seen or written from
// another.
func (k *Kind) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	if len(r.Tasks) == 0 {
		return agon.Record{}, errors.New("shopping: a run has at least one problem")
	}
	watcher, ok := env.(kind.Watcher)
	if !ok {
		return agon.Record{}, errors.New("shopping: this engine shows no events of the gateway")
	}
	problems := make([]Public, len(r.Tasks))
	for i, t := range r.Tasks {
		tk, err := env.Task(ctx, t)
		if err != nil {
			return agon.Record{}, err
		}
		if problems[i], err = loadPublic(tk); err != nil {
			return agon.Record{}, err
		}
	}
	dir, err := env.Tree(ctx, s.Digest)
	if err != nil {
		return agon.Record{}, err
	}
	p := &player{k: k, env: env, watcher: watcher, run: r, dir: dir, ends: k.cfg.Now().Add(suiteWall)}
	out := make([]played, len(r.Tasks))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(k.cfg.Workers)
	for i := range r.Tasks {
		g.Go(func() (err error) {
			out[i], err = p.problem(gctx, r.Tasks[i].Key, problems[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return agon.Record{}, err
	}
	return record(r, out, MaxRun)
}

// record makes a run's record of its problems, whose episodes have at most limit bytes together.
func record(r agon.RunSpec, all []played, limit int) (agon.Record, error) {
	rec := agon.Record{Outcome: OutcomeFailed, Tasks: map[string]string{}, Files: map[string][]byte{}}
	timeouts, total := 0, 0
	for i, p := range all {
		b, err := pack(p.env)
		if err != nil {
			return agon.Record{}, err
		}
		if total += len(b); total > limit {
			total -= len(b)
			p.env.Status, p.env.Dialogue, p.env.Error = StatusFailed, nil, &Failure{"ValueError", fmt.Sprintf("the episodes of the run together are larger than %d bytes", limit)}
			if b, err = pack(p.env); err != nil {
				return agon.Record{}, err
			}
			all[i] = p
		}
		word := agon.OutcomeOK
		switch p.env.Status {
		case StatusFailed:
			word = OutcomeFailed
		case StatusTimedOut:
			word = agon.OutcomeTimeout
			timeouts++
		default:
			rec.Outcome = agon.OutcomeOK
		}
		rec.Tasks[r.Tasks[i].Key] = word
		rec.Files[episodeFile(i)] = b
		if b, err = json.Marshal(p.ev); err != nil {
			return agon.Record{}, fmt.Errorf("encode evidence: %w", err)
		}
		rec.Files[evidenceFile(i)] = b
	}
	if timeouts == len(all) {
		rec.Outcome = agon.OutcomeTimeout
	}
	hidden := slices.ContainsFunc(r.Tasks, func(t agon.TaskRef) bool { return t.Hidden })
	if rec.Outcome != agon.OutcomeOK && all[0].env.Error != nil && !hidden { // an agent could raise what it was asked
		rec.Detail = plain.Short(all[0].env.Error.Type+": "+all[0].env.Error.Message, 500)
	}
	return rec, nil
}

// player is one Play under way.
type player struct {
	k       *Kind
	env     kind.Env
	watcher kind.Watcher
	run     agon.RunSpec
	dir     string    // the submission's tree
	ends    time.Time // when the whole run is over
}

// problem plays one problem. An error is never the agent's.
func (p *player) problem(ctx context.Context, key string, pub Public) (played, error) {
	out := played{env: Envelope{ProblemID: pub.ProblemID, Status: StatusTimedOut}, ev: &Evidence{Calls: []Call{}}}
	limits := p.run.Policy.Agent
	wall := problemWall
	if limits.WallMS > 0 {
		wall = time.Duration(limits.WallMS) * time.Millisecond
	}
	if left := p.ends.Sub(p.k.cfg.Now()); left < wall {
		wall = left
	}
	if wall < time.Second {
		out.env.Error = &Failure{"TimeoutError", fmt.Sprintf("the suite's %.0f seconds are over", suiteWall.Seconds())}
		return out, nil
	}
	w, err := p.watcher.Watch(ctx, key, kind.Dialect{NonceField: nonceField}, proxyDoor)
	if err != nil {
		return out, err
	}
	if err := p.child(ctx, key, pub, w.Doors, limits, wall, &out.env); err != nil {
		return out, err
	}
	// From here on nothing is added: calls under way are cut off and settled.
	events, err := w.Seal()
	if err != nil {
		return out, err
	}
	if out.ev, err = Gather(events); err != nil {
		return out, err
	}
	if text := out.ev.Text(); text != "" {
		p.env.Progress(agon.EventOutput, key, map[string]any{"stream": "evidence", "text": text, "truncated": out.ev.Cut > 0 || len(out.ev.Calls) > maxShown})
	}
	out.env.Calls = out.ev.Models
	for _, c := range out.ev.Calls {
		if c.Kind == CallModel && c.Status != 200 {
			out.env.Failed++
		}
	}
	return out, nil
}

// child runs agent_main in a box and reads its episode from the pipe.
func (p *player) child(ctx context.Context, key string, pub Public, doors []sandbox.Door, limits agon.Limits, wall time.Duration, e *Envelope) error {
	args, err := childArgs()
	if err != nil {
		return err
	}
	memory := limits.MemoryBytes
	if memory == 0 {
		memory = sandbox.DefaultLimits.MemoryBytes
	}
	limits.WallMS = (wall + 30*time.Second).Milliseconds()
	limits.OutputBytes = 2*MaxEpisode + 1<<20 // of the episode, and of what it prints
	box, err := p.env.Box(ctx, sandbox.Spec{
		Name:   "shopper",
		Rootfs: p.k.cfg.Rootfs,
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountTmp, Target: "/tmp", SizeBytes: min(tmpBytes, memory/2)},
			{Kind: sandbox.MountScratch, Target: logsDir},
			{Kind: sandbox.MountReadOnly, Source: p.dir, Target: agentDir},
		},
		Doors:     doors,
		Hostnames: []string{"proxy"},
		Limits:    limits,
		Warm:      &sandbox.Warm{Args: args, Env: childEnv},
		Env:       p.environ(pub.ProblemID, wall),
	})
	if err != nil {
		return err
	}
	defer func() { _ = box.Close() }()
	job, err := json.Marshal(map[string]any{"agent": agentDir + "/" + AgentFile, "problem": pub})
	if err != nil {
		return fmt.Errorf("encode problem: %w", err)
	}
	result, printed := &head{limit: MaxEpisode + 1<<20}, &tail{limit: 64 << 10}
	// The pipe is read while the agent runs: an episode of any length that fits
	// the limit arrives whole, and a child never waits for its reader.
	x, err := box.Exec(ctx, sandbox.Cmd{
		Args: args, Dir: logsDir, Stdin: bytes.NewReader(job), Stdout: result, Stderr: printed, Untrusted: true, Wall: wall,
	})
	if err != nil {
		return fmt.Errorf("run the agent: %w", err)
	}
	if err := box.Close(); err != nil {
		return fmt.Errorf("close the agent's box: %w", err)
	}
	e.Seconds = math.Round(x.Wall.Seconds()*10) / 10
	if b, dropped := printed.bytes(); len(b) > 0 {
		p.env.Progress(agon.EventOutput, key, map[string]any{"stream": "stderr", "text": strings.ToValidUTF8(string(b), "\ufffd"), "truncated": dropped > 0})
	}
	ended(e, x, result.buf, wall)
	if e.Error != nil {
		p.env.Progress(agon.EventOutput, key, map[string]any{"stream": "episode", "text": plain.Short(e.Status+": "+e.Error.Type+": "+e.Error.Message, 1200), "truncated": false})
	}
	return nil
}

// ended says what the end of a child means.
func ended(e *Envelope, x sandbox.Exit, result []byte, wall time.Duration) {
	switch {
	case x.Limit == "wall" || x.Limit == "cpu":
		e.Status, e.Error = StatusTimedOut, &Failure{"TimeoutError", fmt.Sprintf("Execution exceeded timeout of %.1fs", wall.Seconds())}
	case x.Limit != "":
		e.Status, e.Error = StatusFailed, &Failure{"RuntimeError", x.Limit + " limit of the box reached"}
	case len(result) == 0:
		e.Status, e.Error = StatusFailed, &Failure{"RuntimeError", fmt.Sprintf("Process exited with code %d but produced no result", x.Code)}
	default:
		readEpisode(e, result)
	}
}

// childEnv is what the child reads when it starts, before it knows of an agent.
var childEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0", "HOME=/tmp"}

// environ is the environment of spec/oro.md 1.2. The token opens nothing: the
// session belongs to the door.
func (p *player) environ(problem string, wall time.Duration) []string {
	env := append(slices.Clone(childEnv),
		"SANDBOX_PROXY_URL="+proxyURL, "SANDBOX_OUTPUT_FILE="+logsDir+"/output.jsonl",
		"INFERENCE_STATS_FILE="+logsDir+"/inference_stats.jsonl", "REQUEST_LOG_FILE="+logsDir+"/request_log_"+problem+".jsonl",
		"CHUTES_ACCESS_TOKEN=agon", "INFERENCE_ACCESS_TOKEN=agon", "INFERENCE_PROVIDER=chutes", "INFERENCE_BASE_URL="+proxyURL+"/inference",
		fmt.Sprintf("AGENT_TIMEOUT=%d", int64(wall.Seconds())),
	)
	model := p.k.cfg.Model
	for _, m := range p.run.Policy.Models {
		if m != "*" {
			model = m
			break
		}
	}
	if model != "" {
		env = append(env, "SANDBOX_MODEL="+model)
	}
	return env
}

// head keeps the first limit bytes written to it.
type head struct {
	limit int
	buf   []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.buf = append(h.buf, p[:min(len(p), h.limit-len(h.buf))]...)
	return len(p), nil
}

// tail keeps the last limit bytes written to it.
type tail struct {
	limit   int
	buf     []byte
	dropped int64
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - 2*t.limit; over > 0 {
		t.dropped += int64(len(t.buf) - t.limit)
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.limit:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() ([]byte, int64) {
	if over := len(t.buf) - t.limit; over > 0 {
		return t.buf[over:], t.dropped + int64(over)
	}
	return t.buf, t.dropped
}
