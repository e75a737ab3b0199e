package play

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/mock"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

//go:embed agent.py
var agentSource string

// Places inside the agent's box.
const (
	workspace   = "/workspace"
	resultDir   = "/result"
	resultFile  = resultDir + "/result.json"
	gatewayDoor = "127.0.0.1:8000"
	mockDoor    = "127.0.0.1:3001"
	mockToken   = "Agon-Mock"
)

// Bounds of an episode; an arena's policy may set less.
const (
	MaxTurns     = 30  // answers of the model
	MaxToolCalls = 100 // calls of tools
	maxTokens    = 4096
	maxResult    = 1 << 20
	maxLog       = 64 << 10
)

// Files of a record.
const (
	FileEpisode      = "episode.json"
	FilePack         = "pack.json"
	FileCalls        = "calls.jsonl"
	FileRequests     = "all_requests.jsonl"
	FileConversation = "conversation.jsonl"
	FileLog          = "miner.log"
)

// OutcomeModel is an outcome besides those of package agon: the gateway refused, or the provider did not answer.
const OutcomeModel = "model_error"

// Episode is what became of one scenario, made outside the box but for the
// response.
type Episode struct {
	Scenario string            `json:"scenario"`
	Pack     string            `json:"pack_hash"`
	Prompt   string            `json:"input_message"`
	User     map[string]string `json:"user_context"`
	Response string            `json:"response"`
	Turns    int               `json:"turns"`
	Stopped  string            `json:"stopped,omitempty"` // the bound or stop rule that ended it
	Error    string            `json:"error,omitempty"`
	Calls    []mock.Call       `json:"tool_calls_raw"`
	Requests []mock.Request    `json:"all_requests"`
	Cost     Cost              `json:"cost"`
	// State is what stateful services held at the end; of a session each episode has its own.
	State packfile.Value `json:"state,omitzero"`
	// Session are the episodes of a session, each with calls of its own; Calls are all of them.
	Session []SessionEpisode `json:"session,omitempty"`
}

// Cost is what the agent's model calls cost, as the gateway booked them.
type Cost struct {
	Micros agon.Micros `json:"total_micros"`
	USD    float64     `json:"total_usd"`
	Input  int64       `json:"input_tokens"`
	Output int64       `json:"output_tokens"`
	Cached int64       `json:"cache_read_tokens,omitempty"` // of Input, at the price of a cache
	Calls  int         `json:"calls"`
	Models []ModelCost `json:"models"`
}

// ModelCost is one model's part of a cost.
type ModelCost struct {
	Model    string      `json:"model"`
	Provider string      `json:"provider"`
	Count    int         `json:"count"`
	Share    float64     `json:"share"` // of the calls
	Input    int64       `json:"input_tokens"`
	Output   int64       `json:"output_tokens"`
	Micros   agon.Micros `json:"cost_micros"`
}

// costFrom sums the receipts of an episode.
func costFrom(receipts []agon.Receipt) Cost {
	var c Cost
	by := map[string]*ModelCost{}
	var names []string
	for _, r := range receipts {
		key := r.Model + "\n" + r.Provider
		m := by[key]
		if m == nil {
			m = &ModelCost{Model: r.Model, Provider: r.Provider}
			by[key] = m
			names = append(names, key)
		}
		m.Count++
		m.Input, m.Output, m.Micros = m.Input+r.Prompt, m.Output+r.Completion, m.Micros+r.Cost
		c.Input, c.Cached, c.Output, c.Micros, c.Calls = c.Input+r.Prompt, c.Cached+r.Cached, c.Output+r.Completion, c.Micros+r.Cost, c.Calls+1
	}
	slices.Sort(names)
	c.Models = []ModelCost{}
	for _, n := range names {
		m := *by[n]
		m.Share = float64(m.Count) / float64(c.Calls)
		c.Models = append(c.Models, m)
	}
	c.USD = float64(c.Micros) / 1e6
	return c
}

// job is what the agent is told.
type job struct {
	Files       map[string]string `json:"files"` // of the workspace
	SystemFiles []string          `json:"system_files"`
	Workspace   string            `json:"workspace"`
	Result      string            `json:"result"`
	Prompt      string            `json:"prompt"`
	Tools       []string          `json:"tools"`
	Texts       map[string]string `json:"texts"` // what the model is told of a tool, where it is not as usual
	Allow       []string          `json:"allow"` // null: everything
	Deny        []string          `json:"deny"`
	StopRules   []string          `json:"stop_rules"`
	Skills      []Skill           `json:"skills"`
	Model       string            `json:"model"`
	MaxTurns    int               `json:"max_turns"`
	MaxCalls    int               `json:"max_calls"`
	MaxTokens   int               `json:"max_tokens"`
	Gateway     string            `json:"gateway"`
	Mock        string            `json:"mock"`
	Timeout     int               `json:"model_timeout"` // seconds
	ToolTimeout int               `json:"tool_timeout"`  // seconds
}

// Skill is a part of a pack that may run on a model of its own.
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Model       string `json:"model"`
	Text        string `json:"text"`
}

// Play plays one scenario.
func (k *Kind) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	if len(r.Tasks) != 1 {
		return agon.Record{}, fmt.Errorf("pack: a run has one scenario, this one has %d", len(r.Tasks))
	}
	watcher, ok := env.(kind.Watcher)
	if !ok {
		return agon.Record{}, errors.New("pack: this engine watches no sessions")
	}
	tk, err := env.Task(ctx, r.Tasks[0])
	if err != nil {
		return agon.Record{}, err
	}
	sc, err := openScenario(tk)
	if err != nil {
		return agon.Record{}, err
	}
	defer sc.close()
	dir, err := env.Tree(ctx, s.Digest)
	if err != nil {
		return agon.Record{}, err
	}
	p, err := packIn(dir)
	if err != nil {
		return agon.Record{}, err
	}
	j, user, err := k.job(sc, p, r)
	if err != nil {
		return agon.Record{}, err
	}
	// A pack that games the evaluation is not paid for: nothing is played, and Judge says why.
	in, err := k.cfg.Judge.Integrity(ctx, k.session(ctx, env, tk.Key), p)
	if err != nil {
		return agon.Record{}, fmt.Errorf("judge integrity: %w", err)
	}
	if !in.Passed {
		return unplayed(sc.Name, j.Prompt, user, p)
	}
	if len(sc.Session) > 0 || sc.Verifier != nil {
		return k.playShell(ctx, env, watcher, shellPlay{tk: tk, sc: sc, pack: p, job: j, user: user, run: r})
	}
	fixtures, err := sc.fixtures()
	if err != nil {
		return agon.Record{}, err
	}
	var files []blob.File
	for _, name := range slices.Sorted(maps.Keys(j.Files)) {
		files = append(files, blob.File{Path: name, Content: []byte(j.Files[name])})
	}
	server, err := mock.New(mock.Config{Fixtures: fixtures, Workspace: blob.FS(files), Scenario: sc.Name, User: user})
	if err != nil {
		return agon.Record{}, err
	}
	door, stop, err := serveDoor(server.Tools(), mockDoor)
	if err != nil {
		return agon.Record{}, err
	}
	defer stop()
	w, err := watcher.Watch(ctx, tk.Key, kind.Dialect{}, gatewayDoor)
	if err != nil {
		return agon.Record{}, err
	}
	root, err := k.root(ctx, env, tk)
	if err != nil {
		return agon.Record{}, err
	}
	rec, result, err := k.agent(ctx, env, r, root, append(w.Doors, door), j)
	if err != nil {
		return agon.Record{}, err
	}
	e := Episode{
		Scenario: sc.Name, Pack: p.Hash, Prompt: j.Prompt, User: user, Response: result.Response, Turns: result.Turns, Stopped: plain.Short(result.Stopped, 200),
		Error: plain.Short(result.Error, 500), Calls: server.Calls(), Requests: server.Requests(),
	}
	if err := finish(env, w, r, tk.Key, p, &rec, e); err != nil {
		return agon.Record{}, err
	}
	return rec, nil
}

// unplayed is the record of an episode that was not begun.
func unplayed(scenario, prompt string, user map[string]string, p *packfile.Pack) (agon.Record, error) {
	body, err := json.Marshal(Episode{Scenario: scenario, Pack: p.Hash, Prompt: prompt, User: user, Calls: []mock.Call{}, Cost: costFrom(nil)})
	if err != nil {
		return agon.Record{}, fmt.Errorf("encode episode: %w", err)
	}
	return agon.Record{Outcome: agon.OutcomeEmpty, Detail: "not played: the judge of integrity refused the pack", Files: map[string][]byte{FileEpisode: body, FilePack: p.Canonical}}, nil
}

// finish ends the session at the gateway and fills a record with the evidence of an episode.
func finish(env kind.Env, w kind.Watched, r agon.RunSpec, key string, p *packfile.Pack, rec *agon.Record, e Episode) error {
	events, err := w.Seal()
	if err != nil {
		return err
	}
	receipts, conversation, err := readEvents(events)
	if err != nil {
		return err
	}
	e.Cost = costFrom(receipts)
	for i, c := range e.Calls {
		env.Progress(agon.EventTool, key, map[string]any{"tool": toolReceipt(r.Run, i, c)})
	}
	if e.Calls == nil {
		e.Calls = []mock.Call{}
	}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode episode: %w", err)
	}
	rec.Files[FileEpisode], rec.Files[FilePack], rec.Files[FileConversation] = body, p.Canonical, conversation
	rec.Files[FileCalls], rec.Files[FileRequests] = lines(e.Calls), lines(e.Requests)
	return nil
}

// root is the root file system of a task's boxes.
func (k *Kind) root(ctx context.Context, env kind.Env, tk *task.Task) (rootfs.Root, error) {
	if image := tk.Config.Environment.Image; image != "" {
		return env.Root(ctx, image)
	}
	return rootfs.NewRoots(k.cfg.Rootfs, nil).Own(), nil
}

// agent runs the fixed agent in a box of its own, which ends with it.
func (k *Kind) agent(ctx context.Context, env kind.Env, r agon.RunSpec, root rootfs.Root, doors []sandbox.Door, j job) (agon.Record, result, error) {
	box, err := env.Box(ctx, sandbox.Spec{
		Name: "agent", Rootfs: root.Dir, UID: root.UID, GID: root.GID,
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountScratch, Target: workspace}, {Kind: sandbox.MountScratch, Target: resultDir}, {Kind: sandbox.MountTmp, Target: "/tmp", SizeBytes: 16 << 20},
		},
		Doors: doors, Limits: r.Policy.Agent, Env: environ(root),
	})
	if err != nil {
		return agon.Record{}, result{}, err
	}
	defer box.Close()
	rec, res, err := runAgent(ctx, box, root.Python, j)
	if err != nil {
		return agon.Record{}, result{}, err
	}
	if err := box.Close(); err != nil {
		return agon.Record{}, result{}, fmt.Errorf("close the agent's box: %w", err)
	}
	return rec, res, nil
}

func environ(root rootfs.Root) []string {
	return root.Environ("LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0", "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1")
}

// toolReceipt tells of a call of a mock tool as a tool host does: it cost
// nothing, so nothing is signed.
func toolReceipt(run string, i int, c mock.Call) tools.Receipt {
	request := packfile.Obj("args", []any{}, "kwargs", c.Args).Compact()
	response := c.Response.Compact()
	at, err := time.Parse(time.RFC3339Nano, c.TS)
	if err != nil {
		at = time.Time{} // the mock tools wrote it
	}
	return tools.Receipt{
		ReceiptID: fmt.Sprintf("%s-tool-%d", run, i+1), SessionID: run, Tool: c.Tool, IssuedAt: at, Outcome: tools.OutcomeOK, Backend: "fixtures",
		RequestHash: agon.Sum(request).Hex(), ResponseHash: agon.Sum(response).Hex(), Request: request, Response: strict(response),
	}
}

// strict is JSON as every reader takes it: fixtures may hold NaN.
func strict(b []byte) json.RawMessage {
	if json.Valid(b) {
		return b
	}
	return nil
}

func lines[T any](list []T) []byte {
	var b bytes.Buffer
	for _, x := range list {
		line, err := json.Marshal(x)
		if err != nil {
			continue // a value that was encoded once before
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

func packIn(dir string) (*packfile.Pack, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open submission: %w", err)
	}
	defer func() { _ = root.Close() }()
	b, err := clawbench.ReadFile(root.FS(), File, packfile.MaxBytes)
	if err != nil {
		return nil, err
	}
	return packfile.Read(b)
}

// workspacePath says whether a pack may write a file of that name.
func workspacePath(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= 200 && !strings.ContainsAny(name, "\\\x00")
}

// addPack adds a pack's files to those of a workspace, as far as they can stand there.
func addPack(files map[string]string, p *packfile.Pack) {
	for _, name := range slices.Sorted(slices.Values(p.Files())) { // a file comes before what is below its name
		if text, ok := p.File(name); ok && workspacePath(name) && fits(files, name) {
			files[name] = strings.ToValidUTF8(text, "\ufffd")
		}
	}
}

// fits says whether a file may stand beside others: none of them is its folder, nor it
// a folder of theirs.
func fits(files map[string]string, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := files[dir]; ok {
			return false
		}
	}
	for other := range files {
		if strings.HasPrefix(other, name+"/") {
			return false
		}
	}
	return true
}

// job puts together what the agent works with.
func (k *Kind) job(sc *scenario, p *packfile.Pack, r agon.RunSpec) (job, map[string]string, error) {
	epoch := k.cfg.Context(r)
	user := clawbench.UserContext(sc.User, epoch.User())
	files := map[string]string{}
	for place, from := range sc.Workspace {
		b, err := clawbench.ReadFile(sc.root.FS(), path.Join(fixturesDir, from), clawbench.MaxFixture)
		if err != nil {
			return job{}, nil, fmt.Errorf("task of %s: %w", sc.Name, err)
		}
		files[place] = clawbench.Fill(string(b), user)
	}
	j := job{
		Files: files, Workspace: workspace, Result: resultFile, Prompt: clawbench.Fill(strings.TrimSpace(sc.Prompt), user), Tools: sc.Tools,
		MaxTurns: MaxTurns, MaxCalls: MaxToolCalls, MaxTokens: maxTokens, Gateway: "http://" + gatewayDoor, Mock: "http://" + mockDoor, Timeout: 180, ToolTimeout: 30,
		SystemFiles: []string{packfile.PolicyFile, "SOUL.md", "USER.md"}, StopRules: []string{}, Skills: []Skill{},
	}
	addPack(files, p)
	if _, own := p.File(packfile.PolicyFile); !own {
		j.SystemFiles[0] = packfile.SkillFile
	}
	files[j.SystemFiles[0]] = epoch.Preamble() + files[j.SystemFiles[0]]
	for _, m := range r.Policy.Models {
		if m != "*" {
			j.Model = m // the arena's first
			break
		}
	}
	j.Allow, j.Deny = p.Tools()
	j.Skills = append(j.Skills, Skills(p, r.Policy.Models)...)
	for _, rule := range p.Value.Get("stop_rules").List {
		text := rule.Text()
		for name, at := range map[string]*int{"max_turns": &j.MaxTurns, "max_tool_calls": &j.MaxCalls} {
			if n, ok := bound(rule, name); ok {
				*at = min(*at, max(1, n))
			}
		}
		if rule.Kind == packfile.String {
			j.StopRules = append(j.StopRules, text)
		}
	}
	return j, user, nil
}

var boundForm = lazyregexp.New(`^\s*(max_turns|max_tool_calls)\s*[:=]\s*(\d{1,4})\s*$`)

// bound reads a stop rule that the agent can keep by itself: {"max_turns": 5},
// {"type": "max_turns", "value": 5} or "max_turns: 5".
func bound(rule packfile.Value, name string) (int, bool) {
	v := rule.Get(name)
	if rule.Get("type").Str == name {
		v = rule.Get("value")
	}
	text := v.Int
	if rule.Kind == packfile.String {
		if m := boundForm().FindStringSubmatch(rule.Str); m != nil && m[1] == name {
			text = m[2]
		}
	}
	if text == "" || len(text) > 4 {
		return 0, false
	}
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

var skillPath = lazyregexp.New(`^skills/([A-Za-z0-9_-]{1,40})(\.md|/SKILL\.md)$`)

// Skills are the pack's parts with a model of their own, where the arena
// allows that model; else they run on the agent's.
func Skills(p *packfile.Pack, models []string) []Skill {
	var out []Skill
	for _, name := range p.Files() {
		m := skillPath().FindStringSubmatch(name)
		text, ok := p.File(name)
		if m == nil || !ok || len(out) >= 16 {
			continue
		}
		s := Skill{Name: m[1], Description: m[1], Text: text}
		if rest, ok := strings.CutPrefix(text, "---\n"); ok {
			if head, body, ok := strings.Cut(rest, "\n---\n"); ok {
				s.Text = body
				for line := range strings.SplitSeq(head, "\n") {
					key, val, _ := strings.Cut(line, ":")
					switch val = strings.Trim(strings.TrimSpace(val), `"'`); strings.TrimSpace(key) {
					case "model":
						if slices.Contains(models, val) || slices.Contains(models, "*") {
							s.Model = val
						}
					case "description":
						s.Description = plain.Short(val, 300)
					}
				}
			}
		}
		out = append(out, s)
	}
	return out
}

// result is what the agent left: its word.
type result struct {
	Outcome  string `json:"outcome"`
	Response string `json:"response"`
	Error    string `json:"error"`
	Turns    int    `json:"turns"`
	Calls    int    `json:"calls"`
	Stopped  string `json:"stopped"`
}

func runAgent(ctx context.Context, box sandbox.Box, python string, j job) (agon.Record, result, error) {
	var res result
	in, err := json.Marshal(j)
	if err != nil {
		return agon.Record{}, res, fmt.Errorf("encode job: %w", err)
	}
	log := &limited{left: maxLog}
	x, err := box.Exec(ctx, sandbox.Cmd{
		Args: []string{python, "-I", "-c", agentSource}, Dir: workspace, Stdin: bytes.NewReader(in), Stdout: log, Stderr: log, Untrusted: true,
	})
	if err != nil {
		return agon.Record{}, res, fmt.Errorf("run the agent: %w", err)
	}
	rec := agon.Record{Files: map[string][]byte{FileLog: log.buf.Bytes()}}
	if x.Limit != "" {
		rec.Outcome, rec.Detail = "limit_"+x.Limit, x.Limit+" limit reached"
		return rec, res, nil
	}
	raw, err := box.ReadFile(resultFile, maxResult)
	switch {
	case errors.Is(err, sandbox.ErrNotExist):
		rec.Outcome, rec.Detail = agon.OutcomeExited, fmt.Sprintf("the agent ended with status %d and left no result", x.Code)
		return rec, res, nil
	case errors.Is(err, sandbox.ErrUnsafe):
		rec.Outcome, rec.Detail = agon.OutcomeInvalid, fmt.Sprintf("the result is not a file of at most %d bytes", maxResult)
		return rec, res, nil
	case err != nil:
		return agon.Record{}, res, fmt.Errorf("read the result: %w", err)
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		rec.Outcome, rec.Detail = agon.OutcomeInvalid, "the result is not JSON"
		return rec, result{}, nil
	}
	switch res.Outcome {
	case "ok":
		rec.Outcome = agon.OutcomeOK
	case "empty_response":
		rec.Outcome = agon.OutcomeEmpty
	default:
		rec.Outcome, rec.Detail = OutcomeModel, plain.Short(res.Error, 300)
	}
	return rec, res, nil
}

type limited struct {
	buf  bytes.Buffer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.buf.Write(b[:n])
	l.left -= n
	return len(b), nil
}

// readEvents takes receipts and conversation out of a session's events.
func readEvents(events []agon.Event) ([]agon.Receipt, []byte, error) {
	var receipts []agon.Receipt
	var b bytes.Buffer
	for _, ev := range events {
		if ev.Type != agon.EventModel {
			continue
		}
		var call struct {
			Receipt  agon.Receipt    `json:"receipt"`
			Request  json.RawMessage `json:"request"`
			Response json.RawMessage `json:"response"`
			Message  json.RawMessage `json:"message"`
		}
		if err := json.Unmarshal(ev.Data, &call); err != nil {
			return nil, nil, fmt.Errorf("read the gateway's events: %w", err)
		}
		receipts = append(receipts, call.Receipt)
		line, err := json.Marshal(map[string]any{
			"turn": len(receipts), "model": call.Receipt.Model, "request": call.Request, "message": call.Message,
			"prompt_tokens": call.Receipt.Prompt, "completion_tokens": call.Receipt.Completion, "cost_micros": call.Receipt.Cost, "at": ev.At,
		})
		if err == nil && b.Len() < 4<<20 {
			b.Write(append(line, '\n'))
		}
	}
	return receipts, b.Bytes(), nil
}
