package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/internal/plain"
)

const (
	// maxWaiting bounds the calls of a session that wait for a slot.
	maxWaiting = 256
	// maxRefusals bounds the refused calls of a session that are recorded one
	// by one; a note counts the rest, so that no loop fills the log.
	maxRefusals = 200
)

// session implements Session.
type session struct {
	g      *Gateway
	id     string
	token  string
	policy Policy
	offers []offer
	acct   *account
	nonces *nonces
	ctx    context.Context // ends with Close; upstream calls live in it, not in the client's
	cancel context.CancelFunc

	slots   chan struct{}
	waiting atomic.Int64
	calls   atomic.Int64 // numbers receipts

	mu     sync.Mutex
	closed bool               // guarded by mu
	active int                // requests inside; guarded by mu
	idle   chan struct{}      // closed when closed and active == 0
	open   map[*call]struct{} // reserved and not settled; guarded by mu
	ev     Evidence           // guarded by mu
	begun  []time.Time        // when the last calls began, at most FairCalls+1; guarded by mu
	loadAt time.Time          // when more than FairParallel calls were last under way; guarded by mu
	// suspects are upstreams that failed while the session was a load on them;
	// they are probed once its calls have ended. Guarded by mu.
	suspects map[*target]string

	recMu    sync.Mutex // orders receipts and events
	rec      Recorder
	sealed   bool           // nothing more is recorded; guarded by recMu
	receipts []agon.Receipt // guarded by recMu
	spent    agon.Micros    // guarded by recMu
	kept     int64          // bytes of bodies in events; guarded by recMu
	refusals int            // guarded by recMu
	bookErr  error          // the books could not be written: nothing here proves anything; guarded by recMu
	closing  sync.Once
	closeErr error
}

func (s *session) ID() string                { return s.id }
func (s *session) BaseURL() string           { return s.g.URL() }
func (s *session) Header() map[string]string { return map[string]string{TokenHeader: s.token} }

func (s *session) Spent() agon.Micros {
	s.recMu.Lock()
	defer s.recMu.Unlock()
	return s.spent
}

func (s *session) Receipts() []agon.Receipt {
	s.recMu.Lock()
	defer s.recMu.Unlock()
	return slices.Clone(s.receipts)
}

func (s *session) Evidence() Evidence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ev
}

// enter admits a request, unless the session is closed.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.active++
	return true
}

func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active--; s.active == 0 && s.closed {
		close(s.idle)
	}
}

// Close refuses later calls, cuts open ones off and waits until they are
// settled, at most CloseWait; what is open then is settled at its reservation.
func (s *session) Close() error {
	s.closing.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *session) close() error {
	s.g.mu.Lock()
	delete(s.g.sessions, sha256.Sum256([]byte(s.token)))
	s.g.mu.Unlock()

	s.mu.Lock()
	s.closed = true
	if s.active == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	s.cancel()

	t := time.NewTimer(s.g.cfg.CloseWait)
	defer t.Stop()
	select {
	case <-s.idle:
	case <-t.C:
	}
	s.mu.Lock()
	late := make([]*call, 0, len(s.open))
	for c := range s.open {
		late = append(late, c)
	}
	s.mu.Unlock()
	slices.SortFunc(late, func(a, b *call) int { return int(a.n - b.n) })
	for _, c := range late {
		c.finish(ending{outcome: outcomeTruncated, worst: true})
	}
	s.judgeSuspects()

	s.recMu.Lock()
	defer s.recMu.Unlock()
	if more := s.refusals - maxRefusals; more > 0 {
		s.record(agon.EventNote, Note{fmt.Sprintf("%d more refused calls are not listed", more)})
	}
	s.sealed = true
	return errors.Join(s.bookErr, s.acct.close(context.WithoutCancel(s.ctx)))
}

// fairWindow is the time over which a session's calls are counted.
const fairWindow = time.Minute

// heavy reports whether the session itself was a load on its upstreams within
// the last minute: more than FairParallel calls at once, or more than FairCalls in all.
func (s *session) heavy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, n := s.g.cfg.Clock(), 0
	if !s.loadAt.IsZero() && now.Sub(s.loadAt) < fairWindow {
		return true
	}
	for _, at := range s.begun {
		if now.Sub(at) < fairWindow {
			n++
		}
	}
	return n > s.g.cfg.FairCalls
}

// later marks an upstream for a probe at the end. A rate limit is not: what
// the session used up may not be back by then. It reports whether this is news.
func (s *session) later(x failedTry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.suspects[x.t]
	if s.suspects == nil {
		s.suspects = map[*target]string{}
	}
	s.suspects[x.t] = string(x.f.Class)
	return !known
}

// judgeSuspects probes what failed under the session's load and never answered
// it again. By now its calls have ended: what still fails was not its doing.
func (s *session) judgeSuspects() {
	s.mu.Lock()
	list := s.suspects
	s.suspects = nil
	s.mu.Unlock()
	if len(list) == 0 {
		return
	}
	time.Sleep(s.g.cfg.CanaryDelay)
	for t, class := range list {
		if class == string(provider.ClassRateLimit) {
			return
		}
		path := provider.PathChat
		if t.price.Kind == kindEmbedding {
			path = provider.PathEmbeddings
		}
		if failed, _ := s.g.canaries.ask(t, path); failed == "" {
			return // one of its upstreams serves: so could it have been served
		}
	}
	s.note("after the session's calls had ended the gateway's own calls failed too")
	s.mu.Lock()
	s.ev.CanaryFailed, s.ev.Recovered = true, false
	s.mu.Unlock()
}

// record hands an event on. The caller holds recMu.
func (s *session) record(typ string, data any) {
	if s.rec != nil && !s.sealed {
		s.rec.Record(typ, s.policy.Task, data)
	}
}

func (s *session) note(format string, args ...any) {
	s.recMu.Lock()
	defer s.recMu.Unlock()
	s.record(agon.EventNote, Note{fmt.Sprintf(format, args...)})
}

// refused records a call that reached no upstream. status is what the client gets.
func (s *session) refused(route string, r *Refusal, status int) {
	if r.agent() {
		s.mu.Lock()
		s.ev.AgentErrors++
		s.mu.Unlock()
	}
	s.recMu.Lock()
	defer s.recMu.Unlock()
	if s.refusals++; s.refusals <= maxRefusals {
		s.record(agon.EventRefused, Refused{Route: plain.Head(route, 200), Status: status, Code: r.Code, Message: plain.Head(r.Message, 500)})
	}
}

// slot waits for a place among the session's parallel calls.
func (s *session) slot(ctx context.Context) *Refusal {
	select {
	case s.slots <- struct{}{}:
		return nil
	default:
	}
	if s.waiting.Add(1) > maxWaiting {
		s.waiting.Add(-1)
		return &Refusal{Status: http.StatusTooManyRequests, Code: "too_many_calls", Message: fmt.Sprintf("more than %d calls are waiting", maxWaiting)}
	}
	defer s.waiting.Add(-1)
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return &Refusal{Status: http.StatusForbidden, Code: "session_closed", Message: "the session is closed"}
}

// pick finds the offer for a request, or the default of its kind where none is named.
func (s *session) pick(q *Request, preferred string) (offer, bool) {
	if q.model == "" && preferred != "" {
		if o, ok := s.pick(&Request{path: q.path, model: preferred, form: q.form}, ""); ok {
			return o, true
		}
	}
	for _, o := range s.offers {
		if o.does(q.path) && o.takes(q) && (q.model == "" || q.model == o.model) {
			return o, true
		}
	}
	return offer{}, false
}

// models answers GET /v1/models.
func (s *session) models(w http.ResponseWriter) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int    `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := make([]model, 0, len(s.offers))
	for _, o := range s.offers {
		list = append(list, model{o.model, "model", 0, o.targets[0].up.Name()})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

// reserve holds the worst case of a call: every byte of the prompt that could
// be a token, and the output limit, which it lowers to what the account
// carries where the client gave none.
func (s *session) reserve(id string, q *Request, o offer) (limit int64, held Amount, kept *commit, err error) {
	chat := q.path == provider.PathChat
	most := int64(0)
	if chat {
		most = o.price.MaxOutput
		if q.Limit > 0 {
			most = min(most, q.Limit)
		} else {
			most = min(most, defaultMaxOutput)
		}
	}
	least := min(most, minOutput)
	_, left := s.acct.balance()
	// Counting costs more time than the rest of the call together; a bound
	// that holds little of what is left needs none.
	prompt := q.roughPrompt()
	if o.price.cost(prompt, 0) > left.Micros/64 || prompt > left.Tokens/64 {
		prompt = q.countedPrompt()
	}
	for range reserveTries {
		limit = most
		if chat && q.Limit == 0 {
			limit = min(o.price.affordable(left.Micros, prompt, most), left.Tokens-prompt, most)
			limit = max(limit, least)
		}
		held = Amount{Micros: o.price.cost(prompt, limit), Calls: 1, Tokens: addCapped(prompt, limit)}
		kept, err = s.acct.reserve(id, held)
		var short *ErrBudget
		if !errors.As(err, &short) || !chat || q.Limit > 0 || limit == least {
			return limit, held, kept, err
		}
		left = short.Left // another call came between: lower the limit again
	}
	return limit, held, kept, err
}

const (
	// minOutput is the shortest output limit, in tokens, that the gateway sets of its own.
	minOutput = 16
	// reserveTries bounds how often a limit is lowered because others were faster.
	reserveTries = 8
)

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only our own shapes come here
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
