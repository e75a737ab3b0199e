package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/internal/traceparent"
)

const (
	maxRemoteReply = 64 << 20 // bytes of a control reply
	remoteTries    = 5        // of a control request that may be repeated
)

// Remote is a gateway in another process, used by a validator: sessions are
// opened and closed there, receipts are signed there, and boxes reach it by
// the same doors. Safe for concurrent use.
type Remote struct {
	base   string
	key    auth.Signer
	now    func() time.Time
	info   Info
	client *http.Client
	relay  *relay // nil: sessions are reached at base
}

// Dial asks a gateway who it is. key signs requests; it must be allowed there. over says how
// it is reached over TLS; nil: as any server. Close the Remote after its sessions.
func Dial(ctx context.Context, base string, key auth.Signer, now func() time.Time, over *certs.Client) (*Remote, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("reach gateway: %q: want http(s)://host[:port]", base)
	}
	t, err := over.Transport()
	if err != nil {
		return nil, fmt.Errorf("reach gateway: %w", err)
	}
	r := &Remote{base: strings.TrimRight(base, "/"), key: key, now: now, client: &http.Client{
		Transport:     t,
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if err := r.call(ctx, http.MethodGet, controlInfo, nil, &r.info); err != nil {
		t.CloseIdleConnections()
		return nil, fmt.Errorf("reach gateway: %w", err)
	}
	if over.Own() || over.Shows() {
		if r.relay, err = openRelay(u, over); err != nil {
			t.CloseIdleConnections()
			return nil, fmt.Errorf("reach gateway: %w", err)
		}
	}
	return r, nil
}

// Close ends what the Remote runs.
func (r *Remote) Close() error {
	r.client.CloseIdleConnections()
	if r.relay == nil {
		return nil
	}
	return r.relay.close()
}

// Info is what the gateway said of itself.
func (r *Remote) Info() Info { return r.info }

// call makes one control request; in is nil for an unsigned GET.
func (r *Remote) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
		if place := traceparent.Of(ctx); place != "" {
			req.Header.Set(traceparent.Header, place)
		}
		if err := auth.SignRequest(req, body, r.key, r.info.Audience, r.now()); err != nil {
			return err
		}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxRemoteReply+1))
	switch {
	case err != nil:
		return err
	case len(b) > maxRemoteReply:
		return fmt.Errorf("reply is larger than %d bytes", maxRemoteReply)
	case resp.StatusCode != http.StatusOK:
		var p struct{ Code, Detail string }
		_ = json.Unmarshal(b, &p) // a proxy's page has neither
		return &agon.Error{Code: p.Code, Status: resp.StatusCode, Message: fmt.Sprintf("gateway answered %d: %.300s", resp.StatusCode, p.Detail)}
	}
	return json.Unmarshal(b, out)
}

// again repeats a request whose repetition changes nothing, unless the gateway refused it.
func (r *Remote) again(ctx context.Context, path string, in, out any) error {
	var err error
	for try := range remoteTries {
		if try > 0 {
			t := time.NewTimer(time.Duration(try) * 500 * time.Millisecond)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return errors.Join(err, ctx.Err())
			}
		}
		if err = r.call(ctx, http.MethodPost, path, in, out); err == nil {
			return nil
		}
		var e *agon.Error
		if errors.As(err, &e) && e.Status < 500 {
			return err
		}
	}
	return err
}

// Open makes a session there; see Gateway.Open.
func (r *Remote) Open(ctx context.Context, p Policy, rec Recorder) (Session, error) {
	var o opened
	if err := r.call(ctx, http.MethodPost, controlSessions, p, &o); err != nil {
		return nil, fmt.Errorf("open gateway session: %w", err)
	}
	s := &remoteSession{r: r, o: o, rec: rec, drained: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go s.follow() // ends with Close
	return s, nil
}

// Seal closes an attempt there and returns its statement; see Gateway.Seal.
func (r *Remote) Seal(ctx context.Context, run string, attempt int) (*agon.Statement, error) {
	var s agon.Statement
	if err := r.again(ctx, controlSeal, map[string]any{"run": run, "attempt": attempt}, &s); err != nil {
		return nil, fmt.Errorf("close attempt at the gateway: %w", err)
	}
	return &s, nil
}

// remoteSession implements Session.
type remoteSession struct {
	r       *Remote
	o       opened
	rec     Recorder
	ctx     context.Context
	cancel  context.CancelFunc
	drained chan struct{} // closed when the last event has been recorded, or none can be had

	closing sync.Once
	err     error
	mu      sync.Mutex
	end     ended // guarded by mu
}

func (s *remoteSession) ID() string                { return s.o.ID }
func (s *remoteSession) Header() map[string]string { return s.o.Header }

// BaseURL is the gateway's, or that of the relay to it.
func (s *remoteSession) BaseURL() string {
	if s.r.relay != nil {
		return s.r.relay.url
	}
	return s.r.base
}

// Spent, Receipts and Evidence are known when the session is closed.
func (s *remoteSession) Spent() agon.Micros { s.mu.Lock(); defer s.mu.Unlock(); return s.end.Spent }

func (s *remoteSession) Receipts() []agon.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]agon.Receipt(nil), s.end.Receipts...)
}

func (s *remoteSession) Evidence() Evidence { s.mu.Lock(); defer s.mu.Unlock(); return s.end.Evidence }

// follow takes events as they come and hands them to the recorder in order.
func (s *remoteSession) follow() {
	defer close(s.drained)
	after := int64(0)
	for {
		var p polled
		if err := s.r.again(s.ctx, controlSessions+"/"+s.o.ID+"/events", map[string]int64{"after": after}, &p); err != nil {
			s.mu.Lock()
			s.end.Error = "events were lost: " + err.Error()
			s.mu.Unlock()
			return
		}
		for _, e := range p.Events {
			if e.Seq <= after {
				continue
			}
			after = e.Seq
			if s.rec != nil {
				s.rec.Record(e.Type, e.Task, e.Data)
			}
		}
		if p.Closed {
			return
		}
	}
}

// Close ends the session there and waits for its last events, at most a minute.
func (s *remoteSession) Close() error {
	s.closing.Do(func() {
		defer s.cancel()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Minute)
		defer cancel()
		var e ended
		if err := s.r.again(ctx, controlSessions+"/"+s.o.ID+"/close", struct{}{}, &e); err != nil {
			s.err = fmt.Errorf("close gateway session: %w", err)
			return
		}
		select {
		case <-s.drained:
		case <-ctx.Done():
			s.err = errors.New("close gateway session: its last events did not come")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		lost := s.end.Error
		s.end = e
		for _, text := range []string{lost, e.Error} {
			if text != "" {
				s.err = errors.Join(s.err, errors.New("close gateway session: "+text))
			}
		}
	})
	return s.err
}

var _ Session = (*remoteSession)(nil)
