package wire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/internal/folder"
)

// Batches are for validators that are there. One of the seed era is if it has asked us for
// anything lately, or answers at its address: it registers when it starts and then waits
// to be asked. One of the query era asks for work all the time.

// liveFor is how long a request shows that its validator is there.
const liveFor = 5 * time.Minute

// keptEvery is how often the times of one validator are written down: the next server knows
// them to a minute.
const keptEvery = time.Minute

// heard is when a validator was last heard of, and when it last asked for work.
type heard struct {
	Hotkey string    `json:"hotkey"`
	At     time.Time `json:"at"`
	Worked time.Time `json:"worked"`

	kept time.Time // when this was written down
}

// liveness is when validators were last heard of.
type liveness struct {
	mu sync.Mutex
	by map[string]heard // by hotkey; guarded by mu
}

func heardName(hotkey string) string { return "heard-" + sha([]byte(hotkey))[:32] }

// loadLive reads what the server before has heard.
func (p *Platform) loadLive() error {
	p.alive.by = map[string]heard{}
	return folder.Load(p.dir, "heard-", func(_ string, h heard) { p.alive.by[h.Hotkey] = h })
}

// hear notes that a validator is there, and asks for work.
func (p *Platform) hear(hotkey string, works bool) {
	now := p.cfg.Now().UTC()
	p.alive.mu.Lock()
	h := p.alive.by[hotkey]
	h.Hotkey, h.At = hotkey, now
	if works {
		h.Worked = now
	}
	keep := now.Sub(h.kept) >= keptEvery
	if keep {
		h.kept = now
	}
	p.alive.by[hotkey] = h
	p.alive.mu.Unlock()
	if !keep {
		return
	}
	if err := p.dir.Put(heardName(hotkey), h); err != nil {
		p.cfg.Log.Warn("a validator that was heard of is not written down", "hotkey", hotkey, "err", err)
	}
}

// last is when a validator was last heard of.
func (p *Platform) last(hotkey string) heard {
	p.alive.mu.Lock()
	defer p.alive.mu.Unlock()
	return p.alive.by[hotkey]
}

// validator reads a request of a validator and notes that it is there. ok is false when
// it has answered.
func (p *Platform) validator(w http.ResponseWriter, r *http.Request, limit int64) (dialect.Identity, []byte, bool) {
	id, body, ok := signed(w, r, p.cfg.Verifier, asValidator, limit)
	if ok {
		p.hear(id.Hotkey, false)
	}
	return id, body, ok
}

// begin is the drive of a batch that is about to be made. nil: there is nobody to push
// it to, and it is played by agon's own validators alone. few is why nobody but the owner
// may make it now.
func (p *Platform) begin(ctx context.Context, owner bool) (d *drive, few string, err error) {
	if p.cfg.Driver.Key == nil && !p.pulls() {
		return nil, "", nil
	}
	names, err := p.dir.Names("validator-")
	if err != nil {
		return nil, "", err
	}
	var known []registration
	for _, n := range names {
		var reg registration
		ok, err := p.dir.Get(n, &reg)
		if err != nil {
			return nil, "", err
		}
		if ok && p.cfg.Now().Sub(reg.At) <= registeredFor {
			known = append(known, reg)
		}
	}
	d = &drive{}
	for _, reg := range p.live(ctx, known) {
		uid, ok, err := p.uid(ctx, reg.Hotkey)
		if err != nil {
			return nil, "", err
		}
		if ok {
			d.Deliveries = append(d.Deliveries, delivery{Hotkey: reg.Hotkey, UID: uid, BaseURL: strings.TrimRight(reg.BaseURL, "/"), State: deliveryWaiting})
		}
	}
	if len(d.Deliveries) == 0 {
		return nil, "", nil
	}
	if n := p.heardOf(known); !owner && 2*len(d.Deliveries) <= n {
		return nil, fmt.Sprintf("%d of the %d validators that were there within a day are there now: a batch is made when most are, or by the subnet's owner", len(d.Deliveries), n), nil
	}
	return d, "", nil
}

// live keeps the registrations whose validators are there. Who is only remembered is
// asked, all at once.
func (p *Platform) live(ctx context.Context, list []registration) []registration {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	there := make([]bool, len(list))
	now := p.cfg.Now()
	var wg sync.WaitGroup
	for i, reg := range list {
		h := p.last(reg.Hotkey)
		if p.pulls() { // nothing is pushed: only those who ask for work play
			there[i] = now.Sub(h.Worked) <= liveFor
			continue
		}
		at := h.At
		if reg.At.After(at) {
			at = reg.At
		}
		if there[i] = now.Sub(at) <= liveFor; there[i] {
			continue
		}
		wg.Go(func() { there[i] = p.answers(ctx, reg.BaseURL) })
	}
	wg.Wait()
	var out []registration
	for i, reg := range list {
		if there[i] {
			out = append(out, reg)
		}
	}
	return out
}

// heardOf counts the registrations of validators that have asked for anything within a day.
func (p *Platform) heardOf(list []registration) (n int) {
	for _, reg := range list {
		at := reg.At
		if h := p.last(reg.Hotkey); h.At.After(at) {
			at = h.At
		}
		if p.cfg.Now().Sub(at) <= 24*time.Hour {
			n++
		}
	}
	return n
}

// answers reports whether a validator says at its address that it is well.
func (p *Platform) answers(ctx context.Context, base string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+"/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection may be used again
	return resp.StatusCode == http.StatusOK
}
