package wire

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// registration is what a validator told of itself.
type registration struct {
	Hotkey  string    `json:"hotkey"`
	BaseURL string    `json:"base_url"`
	At      time.Time `json:"at"`
}

// seen reports whether a validator has registered.
func (p *Platform) seen(hotkey string) (bool, error) {
	var reg registration
	return p.dir.Get(regName(hotkey), &reg)
}

func regName(hotkey string) string {
	return "validator-" + sha([]byte(hotkey))[:32]
}

func (p *Platform) register(w http.ResponseWriter, r *http.Request) {
	id, body, ok := p.validator(w, r, 16<<10)
	if !ok {
		return
	}
	var in struct {
		BaseURL *string `json:"base_url"`
	}
	if !decode(w, body, false, &in) { // later validators send more fields
		return
	}
	if in.BaseURL == nil {
		invalid(w, "missing", "Field required", "base_url")
		return
	}
	u, err := url.Parse(*in.BaseURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || len(*in.BaseURL) > 500 {
		invalid(w, "url_parsing", "Input should be a valid URL", "base_url")
		return
	}
	if err := p.dir.Put(regName(id.Hotkey), registration{id.Hotkey, *in.BaseURL, p.cfg.Now().UTC()}); err != nil {
		p.broken(w, "register", err)
		return
	}
	reply(w, http.StatusOK, map[string]string{"status": "ok"})
}

// weights is GET /v1/weights in the shape that the parsers of both eras read.
func (p *Platform) weights(w http.ResponseWriter, r *http.Request) {
	id, _, ok := p.validator(w, r, 1<<10)
	if !ok {
		return
	}
	var reg registration
	if was, err := p.dir.Get(regName(id.Hotkey), &reg); err != nil {
		p.broken(w, "weights", err)
		return
	} else if !was {
		refuse(w, http.StatusForbidden, "validator_not_registered", "register with POST /v1/validators/register first")
		return
	}
	if p.pulls() {
		p.queryWeights(w, r)
		return
	}
	if ok, err := p.recent(r.Context()); err != nil {
		p.broken(w, "weights", err)
		return
	} else if !ok && !p.cfg.AnyTime {
		refuse(w, http.StatusForbidden, "no_recent_batch", "no batch was completed in the last %d hours", int(p.cfg.Recent.Hours()))
		return
	}
	if out, top, err := p.drivenWeights(r.Context()); err != nil {
		p.broken(w, "weights", err)
		return
	} else if out != nil {
		reply(w, http.StatusOK, map[string]any{"weights": out, "champion_uid": top[0], "final_top": top})
		return
	}
	t, err := p.cfg.Arenas.Target(r.Context(), p.cfg.Arena)
	if err == nil && (t == nil || len(t.UIDs) != len(t.Values)) {
		err = errors.New("target has uids without values")
	}
	var roster [3]*int
	if err == nil {
		roster, err = p.roster(r.Context())
	}
	if err != nil {
		p.cfg.Log.Error("request failed", "what", "weights", "err", err)
		refuse(w, http.StatusServiceUnavailable, "weights_unavailable", "weights are not available now")
		return
	}
	sum := 0.0
	for _, v := range t.Values {
		sum += float64(v)
	}
	out := map[string]float64{}
	for i, u := range t.UIDs {
		if sum > 0 {
			out[strconv.Itoa(int(u))] += float64(t.Values[i]) / sum
		}
	}
	// final_top is null or three long: the seed's client indexes into it.
	answer := map[string]any{"weights": out, "champion_uid": roster[0], "final_top": nil}
	if roster[0] != nil {
		answer["final_top"] = roster
	}
	reply(w, http.StatusOK, answer)
}

// queryWeights answers /v1/weights in the query era.
func (p *Platform) queryWeights(w http.ResponseWriter, r *http.Request) {
	out, uid, ok, err := p.crownWeights(r.Context())
	switch {
	case err != nil:
		p.broken(w, "weights", err)
	case !ok:
		refuse(w, http.StatusServiceUnavailable, "weights_unavailable", "no batch has been decided yet")
	default:
		reply(w, http.StatusOK, map[string]any{"weights": out, "champion_uid": uid})
	}
}

// recent reports whether a batch was completed within the time.
func (p *Platform) recent(ctx context.Context) (bool, error) {
	list, err := p.batches(ctx)
	if err != nil {
		return false, err
	}
	since := p.cfg.Now().Add(-p.cfg.Recent)
	return slices.ContainsFunc(list, func(b Batch) bool { return b.Status == "completed" && b.CreatedAt.After(since) }), nil
}

func (p *Platform) championUID(ctx context.Context) *int {
	if p.pulls() {
		_, uid, _, err := p.crownWeights(ctx)
		if err != nil {
			return nil
		}
		return uid
	}
	roster, err := p.roster(ctx)
	if err != nil || roster[0] == nil {
		return nil
	}
	return roster[0]
}

// roster gives the uids of the three places: those of batches, once one of them has
// decided, else those of the arena.
func (p *Platform) roster(ctx context.Context) (out [3]*int, err error) {
	if list, err := p.places(); err != nil || len(list) > 0 {
		for i, x := range list {
			uid, ok, err := p.uid(ctx, x.Hotkey)
			if err != nil {
				return out, err
			}
			if ok {
				out[i] = &uid
			}
		}
		return out, err
	}
	a, err := p.cfg.Arenas.Arena(ctx, p.cfg.Arena)
	if err != nil {
		return out, err
	}
	for i, seat := range a.Seats[:min(len(a.Seats), len(out))] {
		uid, ok, err := p.uid(ctx, seat.Miner)
		if err != nil {
			return out, err
		}
		if ok {
			out[i] = &uid
		}
	}
	return out, nil
}
