package wire

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/served"
)

// A validator of ORO plays agents on its own machine and pays models with a token
// that it gets with its work. Here that token is a key to the arena's metered
// gateway: it holds for one lease, within the run's policy and budget, and ends
// with it. What is called leaves receipts, a statement and events, made by the
// gateway and not by the validator. A miner's own credential goes to a validator only
// where the miner has signed so (credential.go).

// Gateway is where the calls of a lent token go.
type Gateway interface {
	Open(ctx context.Context, p gateway.Policy, rec gateway.Recorder) (gateway.Session, error)
	// Seal closes an attempt's account and signs what was called.
	Seal(ctx context.Context, run string, attempt int) (*agon.Statement, error)
}

// Limits of lending.
const (
	maxModelBody = 10 << 20 // bytes of a request, as ORO's proxy has it
	maxLent      = 1000     // sessions that are open at once
	maxHeld      = 500      // events that wait for a heartbeat
	// lendTime is how long a token holds at most; ORO's validator plays a suite for half
	// an hour and waits for what it scored for a quarter more.
	lendTime = 2 * time.Hour
)

// loan is what a lease's token opens: a session for the calls of each problem, and
// one for all other calls, those of the validator's judge among them. They draw on
// the one account of the attempt.
type loan struct {
	until   time.Time         // of the lease, as far as it is known
	queries map[string]string // what is asked for, by key of the task

	opening sync.Mutex
	parts   map[string]*lentPart // by key of the task; "": of none; guarded by opening
	over    bool                 // no part is opened any more; guarded by opening

	mu   sync.Mutex
	seq  int64        // of the last event; guarded by mu
	held []agon.Event // not yet with the platform; guarded by mu
	lost int          // events over maxHeld; guarded by mu
}

// lentPart is one session of a loan.
type lentPart struct {
	session gateway.Session
	forward http.Handler
}

// Record implements gateway.Recorder.
func (l *loan) Record(typ, task string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		b = []byte("null") // data of the gateway always encodes
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) >= maxHeld {
		l.lost++
		return
	}
	l.seq++
	l.held = append(l.held, agon.Event{Seq: l.seq, Type: typ, Task: task, At: time.Now(), Data: b}) //nolint:forbidigo // the platform sets right what is off
}

// take returns the events that wait.
func (l *loan) take() []agon.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 {
		l.seq++
		b, _ := json.Marshal(map[string]string{"text": fmt.Sprintf("%d events of the gateway were too many at once and are not kept", l.lost)}) // a text encodes
		l.held, l.lost = append(l.held, agon.Event{Seq: l.seq, Type: agon.EventNote, At: time.Now(), Data: b}), 0                               //nolint:forbidigo // the platform sets right what is off
	}
	out := l.held
	l.held = nil
	return out
}

// lentToken is what a validator gets: which run, and its secret.
func lentToken(run *evalRun) string { return run.ID + "." + run.Inference }

// lent finds the run of a token; nil: it opens nothing (any more).
func (b *Backend) lent(token string) (*evalRun, error) {
	id, secret, _ := strings.Cut(token, ".")
	u, err := uuid.Parse(id)
	if err != nil || len(id) != 36 || secret == "" {
		return nil, nil //nolint:nilnil // it is not a token of ours
	}
	run := &evalRun{}
	found, err := b.dir.Get(docName(u.String()), run)
	if err != nil || !found {
		return nil, err
	}
	if run.Inference == "" || subtle.ConstantTimeCompare([]byte(run.Inference), []byte(secret)) != 1 || run.Done || b.cfg.Now().After(run.Until) || !run.LentUntil.IsZero() && b.cfg.Now().After(run.LentUntil) {
		return nil, nil //nolint:nilnil // likewise
	}
	return run, nil
}

// loanOf opens the session of a run, or finds the one that is open.
func (b *Backend) loanOf(ctx context.Context, run *evalRun) (*loan, error) {
	b.lending.Lock()
	defer b.lending.Unlock()
	now := b.cfg.Now()
	if l := b.loans[run.ID]; l != nil {
		l.until = run.Until
		return l, nil
	}
	for id, l := range b.loans {
		if now.After(l.until) { // its lease ran out, and nobody completed it
			b.end(l)
			delete(b.loans, id)
		}
	}
	if len(b.loans) >= maxLent {
		return nil, fmt.Errorf("%d sessions are open, no more", maxLent)
	}
	g, err := b.cfg.Gateway(ctx)
	if err != nil {
		return nil, err
	}
	l := &loan{until: run.Until, seq: run.Events, queries: map[string]string{}, parts: map[string]*lentPart{}}
	for _, t := range run.Tasks {
		raw, err := b.cfg.Problem(ctx, t)
		if err != nil {
			return nil, err
		}
		var p struct {
			Query string `json:"query"`
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("read problem of %s: %w", t.Key, err)
		}
		l.queries[t.Key] = strings.TrimSpace(p.Query)
	}
	if _, err := b.partOf(ctx, g, run, l, ""); err != nil {
		return nil, err
	}
	b.loans[run.ID] = l
	return l, nil
}

// errOver says that a loan is being settled.
var errOver = errors.New("the loan has ended")

// partOf opens the session for calls of a task, or finds the one that is open.
func (b *Backend) partOf(ctx context.Context, g Gateway, run *evalRun, l *loan, task string) (*lentPart, error) {
	l.opening.Lock()
	defer l.opening.Unlock()
	if p := l.parts[task]; p != nil {
		return p, nil
	}
	if l.over {
		return nil, errOver
	}
	pol := run.Policy
	p := &lentPart{}
	var err error
	p.session, err = g.Open(context.WithoutCancel(ctx), gateway.Policy{
		Run: run.Run, Attempt: run.Attempt, Task: task, Payer: gateway.PayerRun, Models: pol.Models, Aliases: pol.Aliases, Budget: pol.Budget,
		Dialects: []string{gateway.DialectOpenAI}, Fields: pol.Fields, Usage: pol.Usage,
	}, l)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(p.session.BaseURL())
	if err != nil {
		_ = p.session.Close()
		return nil, fmt.Errorf("gateway's address: %w", err)
	}
	header := p.session.Header()
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(at)
			p.Out.Host = at.Host
			p.Out.Header = http.Header{}
			for _, k := range []string{"Content-Type", "Accept"} {
				if v := p.In.Header.Get(k); v != "" {
					p.Out.Header.Set(k, v)
				}
			}
			for k, v := range header {
				p.Out.Header.Set(k, v)
			}
		},
		FlushInterval: -1, // replies may be streams
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			b.cfg.Log.Warn("a lent call failed", "err", err)
			reply(w, http.StatusBadGateway, map[string]string{"detail": "the gateway does not answer"})
		},
	}
	l.parts[task] = p
	return p, nil
}

// end closes the sessions of a loan; what it returns is what they spent.
func (b *Backend) end(l *loan) (list []agon.Receipt, spent agon.Micros) {
	l.opening.Lock()
	defer l.opening.Unlock()
	l.over = true
	for _, task := range slices.Sorted(maps.Keys(l.parts)) {
		p := l.parts[task]
		if err := p.session.Close(); err != nil {
			b.cfg.Log.Error("a lent session does not close", "err", err)
		}
		list = append(list, p.session.Receipts()...)
		spent += p.session.Spent()
	}
	slices.SortStableFunc(list, func(x, y agon.Receipt) int { return x.End.Compare(y.End) })
	return list, spent
}

// judgeField is what the prompt of a validator's judge asks for: its calls belong to
// no problem's conversation.
const judgeField = "reasoning_quality"

// taskOf says of which problem a model call is: of the one whose query stands in its
// messages, the longest where several do; "" where none does. An agent that quotes
// another problem's query spoils its own trajectories, and nothing that is paid.
func (l *loan) taskOf(body []byte) string {
	var in struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(body, &in) != nil {
		return ""
	}
	var texts []string
	for _, m := range in.Messages {
		var text string
		if json.Unmarshal(m.Content, &text) != nil {
			var parts []struct {
				Text string `json:"text"`
			}
			_ = json.Unmarshal(m.Content, &parts) // another form has no text to look at
			for _, p := range parts {
				text += p.Text
			}
		}
		if m.Role == "system" && strings.Contains(text, judgeField) {
			return ""
		}
		texts = append(texts, text)
	}
	found, size := "", 0
	for key, q := range l.queries {
		if len(q) > size && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, q) }) {
			found, size = key, len(q)
		}
	}
	return found
}

// inference is POST /v1/chat/completions and GET /v1/models, as the provider has
// them whose token the validator thinks it holds.
func (b *Backend) inference(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || b.cfg.Gateway == nil {
		reply(w, http.StatusUnauthorized, map[string]string{"detail": "Invalid token."})
		return
	}
	run, err := b.lent(token)
	if err != nil {
		b.broken(w, "inference", err)
		return
	}
	if run == nil {
		reply(w, http.StatusUnauthorized, map[string]string{"detail": "Invalid token."})
		return
	}
	if !b.rate.Allow(run.ID) {
		reply(w, http.StatusTooManyRequests, map[string]string{"detail": "too many requests"})
		return
	}
	l, err := b.loanOf(r.Context(), run)
	if err != nil {
		b.broken(w, "inference", err)
		return
	}
	task := ""
	if r.Method == http.MethodPost {
		body, err := served.Body(w, r, maxModelBody)
		if err != nil {
			reply(w, http.StatusRequestEntityTooLarge, map[string]string{"detail": "the body is too large, or broke off"})
			return
		}
		task = l.taskOf(body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	g, err := b.cfg.Gateway(r.Context())
	if err != nil {
		b.broken(w, "inference", err)
		return
	}
	p, err := b.partOf(r.Context(), g, run, l, task)
	switch {
	case errors.Is(err, errOver):
		reply(w, http.StatusUnauthorized, map[string]string{"detail": "Invalid token."})
		return
	case err != nil:
		b.broken(w, "inference", err)
		return
	}
	p.forward.ServeHTTP(w, r)
}

// utilization is GET /chutes/utilization: who asks takes models in its own order.
func (b *Backend) utilization(w http.ResponseWriter, _ *http.Request) {
	type chute struct {
		Name      string  `json:"name"`
		Used      float64 `json:"utilization_current"`
		Instances int     `json:"active_instance_count"`
	}
	out := []chute{}
	for _, m := range b.cfg.Models() {
		out = append(out, chute{m, 0, 1})
	}
	reply(w, http.StatusOK, out)
}

// told are the events of a run's lent session that the platform has not seen.
func (b *Backend) told(run *evalRun) []agon.Event {
	b.lending.Lock()
	l := b.loans[run.ID]
	b.lending.Unlock()
	if l == nil {
		return nil
	}
	list := l.take()
	if n := len(list); n > 0 {
		run.Events = list[n-1].Seq
	}
	return list
}

// settle ends a run's lent session and puts into its result what the gateway says
// was called. A run that asked no model has a statement too.
func (b *Backend) settle(ctx context.Context, run *evalRun, res *client.Result) error {
	if b.cfg.Gateway == nil || run.Inference == "" {
		return nil
	}
	if s := run.Settled; s != nil { // asked again: an account is closed once
		res.Receipts, res.Cost, res.Statement, res.Events = s.Receipts, s.Cost, s.Statement, s.Events
		return nil
	}
	// A server that ended between the close of the account and its note opens nothing
	// any more: the statement is given again, and says what it cost.
	l, err := b.loanOf(ctx, run)
	if err != nil {
		b.cfg.Log.Warn("a lent session is not opened to be closed", "run", run.Run, "err", err)
	} else {
		res.Receipts, res.Cost = b.end(l)
	}
	g, err := b.cfg.Gateway(ctx)
	if err != nil {
		return err
	}
	if res.Statement, err = g.Seal(context.WithoutCancel(ctx), run.Run, run.Attempt); err != nil {
		return fmt.Errorf("seal the attempt: %w", err)
	}
	if res.Statement != nil && (res.Statement.Calls != int64(len(res.Receipts)) || res.Cost < res.Statement.Cost) {
		// Calls of a session before a restart: their receipts are in the gateway's books.
		res.Cost, res.Receipts, res.Statement = max(res.Cost, res.Statement.Cost), nil, nil
	}
	res.Events = b.told(run)
	b.lending.Lock()
	delete(b.loans, run.ID)
	b.lending.Unlock()
	run.Settled = &settled{res.Receipts, res.Cost, res.Statement, res.Events}
	return b.dir.Put(docName(run.ID), run)
}

// settled is what a lent session came to.
type settled struct {
	Receipts  []agon.Receipt  `json:"receipts"`
	Cost      agon.Micros     `json:"cost_micros"`
	Statement *agon.Statement `json:"statement,omitempty"`
	Events    []agon.Event    `json:"events"`
}

// beat reports that a run is played, with what its lent session has recorded.
func (b *Backend) beat(ctx context.Context, hotkey string, run *evalRun) (*client.HeartbeatReply, error) {
	list := b.told(run)
	h, err := b.cfg.Platform.Heartbeat(ctx, platform.Caller{Hotkey: hotkey}, run.Lease, client.Heartbeat{Token: run.Token, State: agon.RunPlaying, Events: list})
	if err != nil && len(list) > 0 {
		b.lending.Lock()
		if l := b.loans[run.ID]; l != nil {
			l.mu.Lock()
			l.held = append(list, l.held...) // the next one brings them
			l.mu.Unlock()
		}
		b.lending.Unlock()
	}
	return h, err
}
