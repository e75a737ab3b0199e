// Package webhook tells other programs what happened, by the Standard Webhooks
// protocol 1.0.0 with ed25519 signatures (v1a): decisions, new champions and
// what the operator did. Messages are queued in the transaction that reads
// them, so none is lost and none is told before it is durable; each is told at
// least once, and its id tells repetitions apart.
package webhook

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/fetch"
)

// Event types.
const (
	TypeDecided = "submission.decided" // data: agon.Decision
	TypeSeat    = "seat.taken"         // data: agon.Decision
	TypeActed   = "operator.acted"     // data: agon.OperatorAction
)

// Types lists every event type.
var Types = []string{TypeDecided, TypeSeat, TypeActed}

// Limits.
const (
	MaxHooks = 50
	timeout  = 15 * time.Second
	parallel = 8
)

// waits are the pauses before each further try, with jitter; after the last the
// hook is disabled.
var waits = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// Config configures a Teller.
type Config struct {
	Store *store.Store
	Key   ed25519.PrivateKey
	Now   func() time.Time
	Log   *slog.Logger
	// AllowPrivate lets hooks be on private addresses: for a server whose
	// operator tests on one machine.
	AllowPrivate bool
}

// Teller tells hooks.
type Teller struct {
	cfg  Config
	http *fetch.Client
}

// New makes a teller; Run makes it work.
func New(cfg Config) *Teller {
	return &Teller{cfg: cfg, http: fetch.New(fetch.Config{Timeout: timeout, Redirects: -1, AllowPrivate: cfg.AllowPrivate})}
}

// PublicKey is how receivers know this server: "whpk_" and base64.
func (t *Teller) PublicKey() string {
	return "whpk_" + base64.StdEncoding.EncodeToString(t.cfg.Key.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // it is one
}

// Add makes a hook. Errors are *agon.Error.
func (t *Teller) Add(ctx context.Context, url string, types []string) (*agon.Webhook, error) {
	if err := fetch.CheckURL(url); err != nil {
		return nil, err
	}
	if len(types) == 0 {
		types = []string{"*"}
	}
	for _, x := range types {
		if x != "*" && !slices.Contains(Types, x) {
			return nil, &agon.Error{Code: "bad_type", Status: 422, Field: "types", Message: fmt.Sprintf("there is no event type %.40q", x), Mend: fmt.Sprintf("use %v or *", Types)}
		}
	}
	h := agon.Webhook{ID: "wh_" + uuid.Must(uuid.NewV7()).String(), URL: url, Types: types, CreatedAt: t.cfg.Now().UTC()}
	return &h, t.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		list, err := tx.Webhooks()
		if err != nil {
			return err
		}
		if len(list) >= MaxHooks {
			return &agon.Error{Code: "too_many", Status: 422, Limit: strconv.Itoa(MaxHooks), Message: "there are too many webhooks"}
		}
		if _, _, found, err := tx.WebhookCursor(); err != nil {
			return err
		} else if !found { // what was before the first hook is not news
			d, a, err := tx.LastNumbers()
			if err != nil {
				return err
			}
			if err := tx.SetWebhookCursor(d, a); err != nil {
				return err
			}
		}
		return tx.PutWebhook(h)
	})
}

// List returns all hooks.
func (t *Teller) List(ctx context.Context) (out []agon.Webhook, err error) {
	err = t.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		out, err = tx.Webhooks()
		return err
	})
	return out, err
}

// Remove removes a hook.
func (t *Teller) Remove(ctx context.Context, id string) error {
	return t.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		ok, err := tx.DropWebhook(id)
		if err == nil && !ok {
			err = &agon.Error{Code: "not_found", Status: 404, Message: "there is no such webhook"}
		}
		return err
	})
}

// Run tells until ctx ends. wait returns when something may have happened.
func (t *Teller) Run(ctx context.Context, wait func(context.Context) error) {
	for ctx.Err() == nil {
		n, err := t.Step(ctx)
		if err != nil && ctx.Err() == nil {
			t.cfg.Log.Error("webhooks", "err", err)
		}
		if n > 0 {
			continue
		}
		wctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		_ = wait(wctx) // ends with news or after a while
		cancel()
		pause(ctx, time.Second)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// message is the body of a webhook: thin.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

// batch is how many rows are read, and how many messages told, at once.
const batch = 100

// Step queues what is new and tells what is due; it returns how much it did.
func (t *Teller) Step(ctx context.Context) (int, error) {
	did := 0
	err := t.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		did = 0
		d, a, found, err := tx.WebhookCursor()
		if err != nil || !found {
			return err
		}
		hooks, err := tx.Webhooks()
		if err != nil {
			return err
		}
		now := t.cfg.Now().UTC()
		tell := func(typ, key string, at time.Time, data any) error {
			body, err := json.Marshal(message{typ, at, data})
			if err != nil {
				return fmt.Errorf("encode webhook: %w", err)
			}
			for _, h := range hooks {
				if h.Disabled != "" || (!slices.Contains(h.Types, typ) && !slices.Contains(h.Types, "*")) {
					continue
				}
				if err := tx.Enqueue(store.Delivery{Hook: h.ID, Message: "msg_" + key, Type: typ, Body: body, Due: now}); err != nil {
					return err
				}
			}
			return nil
		}
		decisions, err := tx.DecisionsAfter(d, batch)
		if err != nil {
			return err
		}
		for _, x := range decisions {
			d = x.N
			key := strconv.FormatInt(x.N, 10)
			if err := tell(TypeDecided, "d"+key, x.V.At, x.V); err != nil {
				return err
			}
			if x.V.Outcome == agon.TookSeat {
				if err := tell(TypeSeat, "s"+key, x.V.At, x.V); err != nil {
					return err
				}
			}
		}
		actions, err := tx.ActionsAfter(a, batch)
		if err != nil {
			return err
		}
		for _, x := range actions {
			a = x.N
			if err := tell(TypeActed, "a"+strconv.FormatInt(x.N, 10), x.V.At, x.V); err != nil {
				return err
			}
		}
		if did = len(decisions) + len(actions); did == 0 {
			return nil
		}
		return tx.SetWebhookCursor(d, a)
	})
	if err != nil {
		return 0, err
	}
	told, err := t.tell(ctx)
	return did + told, err
}

// tell sends what is due.
func (t *Teller) tell(ctx context.Context) (int, error) {
	var due []store.Delivery
	err := t.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		due, err = tx.DueDeliveries(t.cfg.Now(), batch)
		return err
	})
	if err != nil || len(due) == 0 {
		return 0, err
	}
	sem := make(chan struct{}, parallel)
	errs := make([]error, len(due))
	var wg sync.WaitGroup
	for i, d := range due {
		sem <- struct{}{}
		wg.Go(func() {
			defer func() { <-sem }()
			errs[i] = t.send(ctx, d)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return len(due), t.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		for i, d := range due {
			var err error
			switch {
			case errs[i] == nil:
				err = tx.Delivered(d.N)
			case d.Tries >= len(waits):
				t.cfg.Log.Warn("a webhook is disabled: it took nothing for days", "hook", d.Hook, "err", errs[i])
				err = tx.DisableWebhook(d.Hook, errs[i].Error())
			default:
				w := waits[d.Tries]
				err = tx.Postpone(d.N, t.cfg.Now().Add(w+rand.N(w/5+1))) //nolint:gosec // jitter
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// send tells one hook one message; anything but a 2xx is a failure.
func (t *Teller) send(ctx context.Context, d store.Delivery) error {
	at := strconv.FormatInt(t.cfg.Now().Unix(), 10)
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("webhook-id", d.Message)
	h.Set("webhook-timestamp", at)
	h.Set("webhook-signature", Sign(t.cfg.Key, d.Message, at, d.Body))
	status, err := t.http.Post(ctx, d.URL, h, d.Body)
	if err != nil {
		return err
	}
	if status < 200 || status > 299 {
		return fmt.Errorf("it answers status %d", status)
	}
	return nil
}

// Sign is the value of webhook-signature: "v1a," and base64 of ed25519 over
// "id.timestamp.body".
func Sign(key ed25519.PrivateKey, id, timestamp string, body []byte) string {
	return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(key, append([]byte(id+"."+timestamp+"."), body...)))
}
