package roles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/kit"
)

// envPlayer makes the test binary a validator: the URL of the platform.
const envPlayer = "AGON_TEST_PLAYER"

// player is a validator without boxes: it claims, asks a model through the arena's gateway
// as an agent in a box would, closes the attempt there, and reports. It prints what it hears.
type player struct {
	who      string
	platform *client.Client
	gateways *gateways
	mu       sync.Mutex
	out      *json.Encoder // guarded by mu
}

// playerMain is the process of a player. When ctx ends it claims no more, and ends what it holds.
func playerMain(ctx context.Context, url string) error {
	who := os.Getenv("AGON_TEST_PLAYER_NAME")
	val, err := kit.LoadParty(os.Getenv("AGON_TEST_WALLETS"), who)
	if err != nil {
		return err
	}
	c, err := client.New(url, val.Hotkey)
	if err != nil {
		return err
	}
	slots, err := strconv.Atoi(os.Getenv("AGON_TEST_PLAYER_SLOTS"))
	if err != nil {
		return err
	}
	p := &player{who: who, platform: c, gateways: &gateways{key: val.Hotkey}, out: json.NewEncoder(os.Stdout)}
	fmt.Println("ready", who)
	var wg sync.WaitGroup
	defer wg.Wait()
	for range slots {
		wg.Go(func() {
			for ctx.Err() == nil {
				p.one(context.WithoutCancel(ctx), ctx)
			}
		})
	}
	return nil
}

func (p *player) note(a act) {
	a.At, a.Who = time.Now().UTC(), p.who
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(a) // the test has ended where this fails
}

// refused notes an answer that is an error. One for a reason of ours may pass.
func (p *player) refused(what string, err error) (final bool) {
	a := act{What: "refused", ID: what, Name: err.Error()}
	var e *agon.Error
	if errors.As(err, &e) {
		a.Name, a.Status = e.Code, e.Status
		final = e.Status < 500 && e.Status != http.StatusTooManyRequests
	}
	p.note(a)
	return final
}

// again does something until it succeeds, is refused for good, or the patience ends.
func (p *player) again(ctx context.Context, what string, patience time.Duration, fn func() error) error {
	for end := time.Now().Add(patience); ; {
		err := fn()
		if err == nil || ctx.Err() != nil || p.refused(what, err) || time.Now().After(end) {
			return err
		}
		select { // so that a gateway that is away is not asked without a pause
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// one plays a run, if there is one before claims ends.
func (p *player) one(ctx, claims context.Context) {
	spoken := client.Spoken()
	l, err := p.platform.Claim(claims, client.ClaimRequest{Kinds: []string{"harbor"}, Driver: "runc", WaitMS: 5000, Protocols: &spoken})
	if err != nil && claims.Err() == nil {
		p.refused("claim", err)
	}
	if err != nil || l == nil {
		return
	}
	a := act{What: "leased", ID: l.ID, Run: l.Run.Run, Attempt: l.Attempt}
	p.note(a)
	r := client.Result{Token: l.Token, Outcome: "ok", Driver: agon.Driver{Name: "runc", Version: "1", Limits: []string{}}}
	if err := p.play(ctx, l, &r); err != nil {
		r = client.Result{Token: l.Token, Fault: agon.FaultValidator, Reason: err.Error(), Driver: r.Driver, Scores: []agon.Score{}}
	}
	a.Cost, a.Evidence = r.Cost, r.Evidence
	if r.Statement != nil {
		a.What = "sealed"
		p.note(a)
	}
	var reply *client.ResultReply
	err = p.again(ctx, "result", 5*time.Minute, func() (err error) { reply, err = p.platform.Result(ctx, l.ID, r); return err })
	switch {
	case err != nil:
		a.What = "unanswered"
	case reply.Counted:
		a.What = "counted"
	case reply.Late:
		a.What = "late"
	default:
		a.What = "lost"
	}
	p.note(a)
}

// play fills a result. Scores are 0: no seat moves by it.
func (p *player) play(ctx context.Context, l *client.Lease, r *client.Result) error {
	if _, err := p.platform.Heartbeat(ctx, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying, Events: []agon.Event{{Seq: 1, Type: agon.EventNote, Data: []byte(`{"text":"plays"}`)}}}); err != nil {
		p.refused("heartbeat", err)
	}
	pol := l.Run.Policy
	var s gateway.Session
	err := p.again(ctx, "session", 30*time.Second, func() (err error) {
		s, err = p.gateways.Open(ctx, gateway.Policy{
			Run: l.Run.Run, Attempt: l.Attempt, Task: l.Run.Tasks[0].Key, Models: pol.Models, Budget: pol.Budget,
			Dialects: []string{gateway.DialectOpenAI}, At: pol.Gateway, Key: pol.GatewayKey,
		}, nil)
		return err
	})
	if err != nil {
		return err
	}
	for range 1 + rand.IntN(3) {
		if err := ask(ctx, s); err != nil {
			p.refused("model", err)
		}
	}
	if err := s.Close(); err != nil {
		p.refused("close", err)
		return err
	}
	if err := p.again(ctx, "seal", time.Minute, func() (err error) {
		r.Statement, err = p.gateways.SealAt(ctx, pol.Gateway, pol.GatewayKey, l.Run.Run, l.Attempt)
		return err
	}); err != nil {
		return err
	}
	if r.Cost, r.Receipts = r.Statement.Cost, s.Receipts(); int64(len(r.Receipts)) != r.Statement.Calls {
		r.Statement = nil
		return fmt.Errorf("%d receipts, the gateway has answered another number of calls", len(r.Receipts))
	}
	for _, tk := range l.Run.Tasks {
		r.Scores = append(r.Scores, agon.Score{Run: l.Run.Run, Task: tk.Key, Scorer: "test"})
	}
	return p.again(ctx, "evidence", time.Minute, func() (err error) {
		r.Evidence, err = evidence(ctx, p.platform, l.ID)
		return err
	})
}

// ask makes one call of a model at the door of a session.
func ask(ctx context.Context, s gateway.Session) error {
	body := fmt.Appendf(nil, `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"Say %d words."}]}`, 1+rand.IntN(40))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.BaseURL()+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range s.Header() {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = &agon.Error{Code: "model", Status: resp.StatusCode, Message: string(b)}
	}
	return err
}
