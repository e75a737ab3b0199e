package roles

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/environment"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/gateway/provider/trainer"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
)

const (
	// maxDoors bounds the gateways that are kept, one for each endpoint, model and sampling.
	maxDoors = 16
	// waitingRuns is how many runs may wait for each that is played.
	waitingRuns = 64
)

// envRunner plays an agent of its own on an arena's public tasks, with the model that
// a trainer names. It implements environment.Runner.
type envRunner struct {
	o      kit.Options
	player *kit.Player
	kind   kind.Kind
	arena  agon.Arena
	sub    agon.Submission
	may    endpoints
	work   string
	slots  chan struct{} // runs under way
	places chan struct{} // those, and the ones that wait

	under sync.WaitGroup // runs that hold a door

	mu    sync.Mutex
	doors map[string]*door // guarded by mu
	stop  bool             // guarded by mu
}

// door is the gateway in front of one endpoint.
type door struct {
	once sync.Once
	gw   *gateway.Gateway
	err  error
	used int       // runs that hold it; guarded by envRunner.mu
	last time.Time // guarded by envRunner.mu
}

// newEnvRunner checks the agent as its arena would. list are the tasks, f the arena
// that they are of; nil: the kind's demo, whose limits they are played within.
func newEnvRunner(ctx context.Context, o kit.Options, list []*task.Task, f *kit.ArenaFile, c cli.EnvServeOptions) (_ *envRunner, err error) {
	own, _ := o.Kits.Of(list[0].Config.Agon.Kind)
	switch {
	case own.InsteadOfTry != nil:
		return nil, &agon.Error{Code: "other_command", Status: 422, Field: "agent", Message: own.InsteadOfTry.Why, Mend: own.InsteadOfTry.Mend}
	case own.ToolHost != nil:
		return nil, &agon.Error{Code: "wrong_kind", Status: 422, Field: "agent", Message: fmt.Sprintf("scripts of the kind %s ask models by way of its tools, not a trainer's endpoint", own.Kind), Mend: "serve tasks of another kind"}
	}
	r := &envRunner{o: o, may: endpointsOf(o.Listen, c.Endpoints), doors: map[string]*door{}}
	if r.work, err = tempdir.Make("env"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	blobs, err := blobfs.Open(filepath.Join(r.work, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	var a *agon.Arena
	if f == nil {
		a, _, _, err = tryHere(ctx, o, list, blobs, r.work)
	} else {
		public := *f
		public.Hidden = nil
		x := public.Arena()
		a = &x
		a.Tasks, err = kit.ArenaTasks(ctx, o, public, blobs, r.work)
	}
	if err != nil {
		return nil, err
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	ks := o.Kinds(root)
	r.kind, r.arena = ks[a.Kind], agents(*a)
	entry, err := kit.Unpacked(r.work, c.Agent)
	if err != nil {
		return nil, err
	}
	files, err := tryFiles(own, entry)
	if err != nil {
		return nil, err
	}
	findings, err := r.kind.Check(ctx, a, blob.FS(files))
	if err != nil {
		return nil, err
	}
	findings = slices.DeleteFunc(findings, func(f agon.Finding) bool { return f.Warning })
	if len(findings) > 0 {
		return nil, &agon.Error{Code: findings[0].Code, Status: 422, Field: findings[0].Field, Limit: findings[0].Limit, Message: findings[0].Message, Findings: findings, Mend: "correct it: the arena would refuse it, too"}
	}
	digest, err := blob.PutFiles(ctx, blobs, files, blob.TreeLimits{})
	if err != nil {
		return nil, err
	}
	r.sub = agon.Submission{ID: "env", Arena: a.ID, Name: filepath.Base(c.Agent), Digest: digest, Licence: a.Licence}
	quiet := o
	quiet.Say = nil // nobody here asks which model judges use
	if r.player, err = kit.NewPlayer(ctx, quiet, d, root, ks, blobs, filepath.Join(r.work, "trees")); err != nil {
		return nil, err
	}
	n := c.Runs
	if n <= 0 {
		n = runtime.NumCPU()
	}
	r.slots, r.places = make(chan struct{}, n), make(chan struct{}, n*(1+waitingRuns))
	return r, nil
}

// agents is an arena whose agents ask the trainer's model, by whatever name it lets
// them ask for one. Judges ask those that they always do.
func agents(a agon.Arena) agon.Arena {
	p := &a.Policy
	names := slices.DeleteFunc(slices.Clone(p.Models), func(m string) bool { return m == "*" || m == trainer.Name })
	for _, x := range p.Aliases {
		names = append(names, x.Name)
	}
	p.Models, p.Aliases = []string{trainer.Name}, nil
	slices.Sort(names)
	for _, m := range slices.Compact(names) {
		p.Aliases = append(p.Aliases, agon.Alias{Name: m, Model: trainer.Name})
	}
	p.Gateway, p.GatewayKey = "", "" // metered here
	a.Stages = nil
	return a
}

// Run implements environment.Runner.
func (r *envRunner) Run(ctx context.Context, q environment.Ask) (*environment.Run, error) {
	i := slices.IndexFunc(r.arena.Tasks, func(t agon.TaskRef) bool { return t.Key == q.Task && !t.Hidden })
	if i < 0 {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "task", Message: fmt.Sprintf("there is no task %.80q here", q.Task)}
	}
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	default:
		return nil, &agon.Error{Code: "too_many_runs", Status: 503, Limit: fmt.Sprintf("%d runs", cap(r.places)), Message: fmt.Sprintf("%d runs are played or wait, the limit", cap(r.places)), Mend: "ask for fewer at once, or serve with --runs"}
	}
	gw, release, err := r.gateway(ctx, q)
	if err != nil {
		return nil, err
	}
	defer release()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	spec, err := r.spec(i, q.Seed)
	if err != nil {
		return nil, err
	}
	p := *r.player.Player
	p.Gateway = gw
	att := p.Play(ctx, validator.Job{Run: spec, Attempt: 1, Arena: r.arena, Submission: r.sub})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case att.Fault == agon.FaultProvider:
		return nil, &agon.Error{Code: "endpoint_failed", Status: 502, Fault: att.Fault, Field: "client.base_url", Message: "the model's endpoint failed, not the agent: " + att.Reason, Mend: "leave the episode out; play it again when the endpoint answers"}
	case att.Fault.Ours():
		r.o.Log.Error("environment: run", "task", q.Task, "fault", att.Fault, "reason", att.Reason)
		return nil, &agon.Error{Code: "run_failed", Status: 503, Fault: att.Fault, Message: "the run failed on our side: " + att.Reason, Mend: "leave the episode out; play it again"}
	}
	return ran(q.Task, spec, att), nil
}

// spec is a run of the i-th task, with the limits of the arena's own plan.
func (r *envRunner) spec(i int, seed int64) (agon.RunSpec, error) {
	a := r.arena
	a.Tasks = a.Tasks[i : i+1]
	plan, err := r.kind.Plan(agon.View{Arena: a, Submission: r.sub})
	if err != nil {
		return agon.RunSpec{}, fmt.Errorf("plan: %w", err)
	}
	if len(plan.Runs) == 0 {
		return agon.RunSpec{}, errors.New("plan: there is nothing to play")
	}
	s := plan.Runs[0]
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	s.Run, s.Arena = "env-"+hex.EncodeToString(id[:]), a.ID
	if reflect.ValueOf(s.Policy).IsZero() {
		s.Policy = a.Policy
	}
	if s.Seed = seed; seed == 0 {
		s.Seed = platform.TrySeed(a.ID, r.sub.Digest, s)
	}
	return s, nil
}

// ran tells how an attempt went; its model calls are the turns.
func ran(key string, spec agon.RunSpec, att *validator.Attempt) *environment.Run {
	out := &environment.Run{
		ID: spec.Run, Task: key, Seed: spec.Seed, Fault: att.Fault, Outcome: att.Outcome, Detail: att.Detail, Driver: att.Driver,
		MS: att.Wall.Milliseconds(), BoxMS: att.BoxTime.Milliseconds(),
	}
	if len(att.Scores) > 0 {
		s := att.Scores[0]
		out.Reward, out.Solved, out.Detail = s.Value, s.Solved, cmp.Or(s.Detail, out.Detail)
	}
	for _, e := range att.Events() {
		var c gateway.ModelCall
		if e.Type != agon.EventModel || json.Unmarshal(e.Data, &c) != nil || c.Receipt.Payer != gateway.PayerRun || c.Error != "" {
			continue
		}
		t := environment.Turn{Node: strconv.Itoa(len(out.Trace.Turns)), Response: said(c.Message)}
		if b := c.Request.Content(); json.Valid(b) { // one that was cut is not
			t.Request = b
		} else {
			t.Meta.Cut = true
		}
		if c.Message != nil {
			t.Meta.Finish = c.Message.Finish
		}
		if c.Tokens != nil {
			t.Prompt, t.Completion, t.Logprobs = c.Tokens.Prompt, c.Tokens.Completion, c.Tokens.Logprobs
		}
		out.Trace.Turns = append(out.Trace.Turns, t)
	}
	out.Complete()
	return out
}

// said is a message in OpenAI's form of chat; null where it is not known.
func said(m *gateway.Message) json.RawMessage {
	if m == nil {
		return nil
	}
	out := map[string]any{"role": "assistant", "content": m.Content}
	if m.Reasoning != "" {
		out["reasoning_content"] = m.Reasoning
	}
	var calls []any
	for _, c := range m.ToolCalls {
		calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]string{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		out["tool_calls"] = calls
	}
	b, err := json.Marshal(out)
	if err != nil { // texts only
		return nil
	}
	return b
}

// gateway is the one in front of the endpoint that q names; release says that the run is over.
func (r *envRunner) gateway(ctx context.Context, q environment.Ask) (_ *gateway.Gateway, release func(), err error) {
	rt, err := r.may.transport(q.Client.URL)
	if err != nil {
		return nil, nil, err
	}
	if q.Client.Model == "" {
		return nil, nil, &agon.Error{Code: "bad_field", Status: 422, Field: "client.model", Message: "client.model is missing: the name of the model at its endpoint"}
	}
	up, err := openai.New(openai.Config{Name: trainer.Name, BaseURL: q.Client.URL, Key: q.Client.Key, Models: []string{q.Client.Model}, Transport: rt})
	if err != nil {
		return nil, nil, &agon.Error{Code: "bad_field", Status: 422, Field: "client", Message: "client: " + err.Error()}
	}
	model, err := trainer.New(up, q.Client.Model, q.Sampling)
	if err != nil {
		return nil, nil, &agon.Error{Code: "bad_field", Status: 422, Field: "sampling", Message: err.Error()}
	}
	id, err := json.Marshal(map[string]any{"client": q.Client, "sampling": q.Sampling})
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	if r.stop {
		r.mu.Unlock()
		return nil, nil, &agon.Error{Code: "shutting_down", Status: 503, Message: "the server is stopping"}
	}
	d := r.doors[string(id)]
	if d == nil {
		d = &door{}
		r.doors[string(id)] = d
	}
	d.used++
	r.under.Add(1)
	old := r.idle()
	r.mu.Unlock()
	for _, x := range old {
		x.close()
	}
	release = func() {
		r.mu.Lock()
		d.used--
		d.last = time.Now() //nolint:forbidigo // which gateway was idle the longest
		r.mu.Unlock()
		r.under.Done()
	}
	d.once.Do(func() {
		o := r.o
		o.Say = nil
		d.gw, d.err = kit.NewTrainerGateway(context.WithoutCancel(ctx), o, model)
	})
	if d.err != nil {
		release()
		return nil, nil, d.err
	}
	return d.gw, release, nil
}

// idle takes out the gateways beyond maxDoors that nobody holds, the longest idle first. The caller holds mu.
func (r *envRunner) idle() (out []*door) {
	for len(r.doors) > maxDoors {
		oldest := ""
		for k, d := range r.doors {
			if d.used == 0 && (oldest == "" || d.last.Before(r.doors[oldest].last)) {
				oldest = k
			}
		}
		if oldest == "" {
			return out
		}
		out = append(out, r.doors[oldest])
		delete(r.doors, oldest)
	}
	return out
}

func (d *door) close() {
	d.once.Do(func() { d.err = errors.New("the server is stopping") })
	if d.gw != nil {
		_ = d.gw.Stop() // its books are in memory
	}
}

// close waits for the runs that are under way, which were cancelled before, and ends everything.
func (r *envRunner) close() {
	r.mu.Lock()
	r.stop = true
	doors := r.doors
	r.doors = map[string]*door{}
	r.mu.Unlock()
	r.under.Wait()
	for _, d := range doors {
		d.close()
	}
	if r.player != nil {
		r.player.Close()
	}
	_ = os.RemoveAll(r.work)
}

// endpoints says which models trainers may name. A server that dialled whatever a
// request names would be a way into its network.
type endpoints struct {
	local bool     // any on this machine: who can ask us can ask them
	hosts []string // HOST:PORT that the operator named
}

func endpointsOf(listen string, named []string) endpoints {
	e := endpoints{hosts: named}
	host, _, err := net.SplitHostPort(listen)
	e.local = err == nil && loopbackName(host)
	return e
}

func loopbackName(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// transport reaches the endpoint at raw, and nothing else.
func (e endpoints) transport(raw string) (http.RoundTripper, error) {
	bad := func(format string, args ...any) error {
		return &agon.Error{Code: "bad_field", Status: 422, Field: "client.base_url", Message: "client.base_url: " + fmt.Sprintf(format, args...), Mend: "an endpoint on this machine, or one that the server was started with (--endpoint HOST:PORT)"}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, bad("want http(s)://host[:port]/path of OpenAI's chat completions")
	}
	at := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	switch {
	case slices.Contains(e.hosts, at):
	case e.local && loopbackName(u.Hostname()):
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			if p, err := netip.ParseAddrPort(address); err != nil || !p.Addr().Unmap().IsLoopback() {
				return errors.New("the endpoint is not on this machine")
			}
			return nil
		}
	default:
		return nil, bad("%s is not one that this server may ask", strings.ToValidUTF8(at, "?"))
	}
	return &http.Transport{DialContext: dialer.DialContext, ResponseHeaderTimeout: 10 * time.Minute, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true}, nil
}
