package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// PutWebhook stores a hook; ErrConflict if its id is taken.
func (t *Tx) PutWebhook(h agon.Webhook) error {
	types, err := json.Marshal(h.Types)
	if err != nil {
		return fmt.Errorf("encode webhook: %w", err)
	}
	_, err = t.exec(`INSERT INTO webhooks (id, url, types, created_at) VALUES ($1, $2, $3, $4)`, h.ID, h.URL, string(types), micros(h.CreatedAt))
	return err
}

// Webhooks lists all hooks, oldest first.
func (t *Tx) Webhooks() ([]agon.Webhook, error) {
	return many(t, func(r scanner) (h agon.Webhook, err error) {
		var types string
		var at int64
		if err = r.Scan(&h.ID, &h.URL, &types, &at, &h.Disabled); err != nil {
			return h, err
		}
		h.CreatedAt = fromMicros(at)
		return h, json.Unmarshal([]byte(types), &h.Types)
	}, `SELECT id, url, types, created_at, disabled FROM webhooks ORDER BY created_at, id`)
}

// DropWebhook removes a hook and what it was still to be told.
func (t *Tx) DropWebhook(id string) (bool, error) {
	if _, err := t.exec(`DELETE FROM webhook_queue WHERE hook = $1`, id); err != nil {
		return false, err
	}
	n, err := t.exec(`DELETE FROM webhooks WHERE id = $1`, id)
	return n > 0, err
}

// DisableWebhook stops telling a hook, for a reason.
func (t *Tx) DisableWebhook(id, reason string) error {
	if _, err := t.exec(`DELETE FROM webhook_queue WHERE hook = $1`, id); err != nil {
		return err
	}
	_, err := t.exec(`UPDATE webhooks SET disabled = $1 WHERE id = $2`, plain.Storable(reason), id)
	return err
}

// Delivery is one message that one hook is still to be told.
type Delivery struct {
	N                        int64
	Hook, Message, Type, URL string
	Body                     []byte
	Tries                    int
	Due                      time.Time
}

// Enqueue adds a delivery.
func (t *Tx) Enqueue(d Delivery) error {
	err := t.put(`INSERT INTO webhook_queue (hook, message, type, body, due) VALUES ($1, $2, $3, $4, $5)`,
		d.Hook, d.Message, d.Type, string(d.Body), micros(d.Due))
	return err
}

// DueDeliveries returns what is due, oldest first.
func (t *Tx) DueDeliveries(now time.Time, limit int) ([]Delivery, error) {
	return many(t, func(r scanner) (d Delivery, err error) {
		var body string
		var due int64
		err = r.Scan(&d.N, &d.Hook, &d.Message, &d.Type, &body, &d.Tries, &due, &d.URL)
		d.Body, d.Due = []byte(body), fromMicros(due)
		return d, err
	}, `SELECT q.n, q.hook, q.message, q.type, q.body, q.tries, q.due, h.url FROM webhook_queue q JOIN webhooks h ON h.id = q.hook
		WHERE q.due <= $1 ORDER BY q.due, q.n LIMIT $2`, micros(now), limit)
}

// Delivered removes a delivery.
func (t *Tx) Delivered(n int64) error {
	_, err := t.exec(`DELETE FROM webhook_queue WHERE n = $1`, n)
	return err
}

// Postpone counts a failed try.
func (t *Tx) Postpone(n int64, due time.Time) error {
	_, err := t.exec(`UPDATE webhook_queue SET tries = tries + 1, due = $1 WHERE n = $2`, micros(due), n)
	return err
}

// WebhookCursor says up to where hooks have been told; found is false before the first time.
func (t *Tx) WebhookCursor() (decision, action int64, found bool, err error) {
	type pair struct{ d, a int64 }
	p, err := one(t, func(r scanner) (p pair, err error) { err = r.Scan(&p.d, &p.a); return p, err }, `SELECT decision, action FROM webhook_cursor WHERE one = 1`)
	if errors.Is(err, ErrNotFound) {
		return 0, 0, false, nil
	}
	return p.d, p.a, err == nil, err
}

// SetWebhookCursor moves it.
func (t *Tx) SetWebhookCursor(decision, action int64) error {
	_, err := t.exec(`INSERT INTO webhook_cursor (one, decision, action) VALUES (1, $1, $2)
		ON CONFLICT (one) DO UPDATE SET decision = excluded.decision, action = excluded.action`, decision, action)
	return err
}

// Numbered is something with its place in its table.
type Numbered[T any] struct {
	N int64
	V T
}

// DecisionsAfter returns decisions of all arenas in order.
func (t *Tx) DecisionsAfter(n int64, limit int) ([]Numbered[agon.Decision], error) {
	list, err := many(t, scanInt, `SELECT n FROM decisions WHERE n > $1 ORDER BY n LIMIT $2`, n, limit)
	if err != nil {
		return nil, err
	}
	var out []Numbered[agon.Decision]
	for _, i := range list {
		d, err := one(t, scanDecision, `SELECT `+decisionColumns+` FROM decisions WHERE n = $1`, i)
		if err != nil {
			return nil, err
		}
		out = append(out, Numbered[agon.Decision]{i, d})
	}
	return out, nil
}

// ActionsAfter returns the operator's actions in order.
func (t *Tx) ActionsAfter(n int64, limit int) ([]Numbered[agon.OperatorAction], error) {
	return many(t, func(r scanner) (x Numbered[agon.OperatorAction], err error) {
		var at int64
		err = r.Scan(&x.N, &at, &x.V.Actor, &x.V.What, &x.V.Target, &x.V.Reason, &x.V.Change)
		x.V.At = fromMicros(at)
		return x, err
	}, `SELECT n, at, actor, what, target, reason, change FROM operator_log WHERE n > $1 ORDER BY n LIMIT $2`, n, limit)
}

// LastNumbers are the ends of both tables: where a first hook begins.
func (t *Tx) LastNumbers() (decision, action int64, err error) {
	if decision, err = one(t, scanInt, `SELECT COALESCE(max(n), 0) FROM decisions`); err != nil {
		return 0, 0, err
	}
	action, err = one(t, scanInt, `SELECT COALESCE(max(n), 0) FROM operator_log`)
	return decision, action, err
}
