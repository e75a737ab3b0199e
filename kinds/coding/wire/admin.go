package wire

import (
	"crypto/subtle"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/auth"
)

// admin lets the operator's key in. ok is false when it has answered.
func (b *Backend) admin(w http.ResponseWriter, r *http.Request) bool {
	if b.cfg.AdminKey == "" {
		refuse(w, http.StatusServiceUnavailable, "Admin API is not configured")
		return false
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(b.cfg.AdminKey)) != 1 {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "Invalid admin credentials")
		return false
	}
	return true
}

// setFlags changes what the operator has set, durably.
func (b *Backend) setFlags(change func(*flags)) (flags, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := flags{Paused: b.flags.Paused, Black: slices.Clone(b.flags.Black), Coldkey: maps.Clone(b.flags.Coldkey)}
	if next.Coldkey == nil {
		next.Coldkey = map[string]banned{}
	}
	change(&next)
	if err := b.dir.Put("flags", next); err != nil {
		return next, err
	}
	b.flags = next
	return next, nil
}

// grantCredit is POST /admin/upload-credits. A reference makes it safe to repeat.
func (b *Backend) grantCredit(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Hotkey    string     `json:"miner_hotkey"`
		Reason    string     `json:"reason"`
		By        string     `json:"granted_by"`
		Reference *string    `json:"grant_reference"`
		Expires   *time.Time `json:"expires_at"`
	}
	if !b.admin(w, r) || !decode(w, r, maxSmall, &in, "miner_hotkey", "reason", "granted_by") {
		return
	}
	for name, p := range map[string]struct {
		v *string
		n int
	}{"miner_hotkey": {&in.Hotkey, 100}, "reason": {&in.Reason, 1000}, "granted_by": {&in.By, 200}, "grant_reference": {in.Reference, 500}} {
		if p.v == nil {
			continue
		}
		if *p.v = strings.TrimSpace(*p.v); *p.v == "" || len(*p.v) > p.n {
			invalid(w, "string_too_long", "Input should be text of 1 to the most characters", "body", name)
			return
		}
	}
	now := b.cfg.Now().UTC()
	if _, err := auth.ParseSS58(in.Hotkey); err != nil {
		refuse(w, http.StatusBadRequest, "Invalid hotkey SS58 address")
		return
	}
	id := uuid.NewString()
	if in.Reference != nil {
		id = uuid.NewSHA1(uuid.NameSpaceURL, []byte("ridges-credit:"+*in.Reference)).String()
	}
	b.entering.Lock()
	defer b.entering.Unlock()
	c := credit{}
	ok, err := b.dir.Get("credit-"+id, &c)
	if err == nil && !ok {
		if in.Expires != nil && !in.Expires.After(now) {
			refuse(w, http.StatusBadRequest, "Upload credit expiry must be in the future")
			return
		}
		c = credit{ID: id, Hotkey: in.Hotkey, Reason: in.Reason, By: in.By, Reference: in.Reference, Granted: now, Expires: in.Expires}
		err = b.dir.Put("credit-"+id, c)
	}
	if err != nil {
		b.fail(w, "grant credit", err)
		return
	}
	reply(w, http.StatusOK, c)
}

// ban is PUT /admin/banned-coldkeys/{coldkey}.
func (b *Backend) ban(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Reason string `json:"reason"`
	}
	if !b.admin(w, r) || !decode(w, r, maxSmall, &in, "reason") {
		return
	}
	ck := r.PathValue("coldkey")
	in.Reason = strings.TrimSpace(in.Reason)
	if _, err := auth.ParseSS58(ck); err != nil {
		refuse(w, http.StatusBadRequest, "Invalid coldkey SS58 address")
		return
	}
	if in.Reason == "" || len(in.Reason) > 1000 {
		invalid(w, "string_too_short", "String should have 1 to 1000 characters", "body", "reason")
		return
	}
	f, err := b.setFlags(func(f *flags) {
		if _, old := f.Coldkey[ck]; !old {
			f.Coldkey[ck] = banned{in.Reason, b.cfg.Now().UTC()}
		}
	})
	if err != nil {
		b.fail(w, "ban", err)
		return
	}
	b.books.stale()
	reply(w, http.StatusOK, map[string]any{"miner_coldkey": ck, "banned_reason": f.Coldkey[ck].Reason, "banned_at": stamp(f.Coldkey[ck].At)})
}

func (b *Backend) unban(w http.ResponseWriter, r *http.Request) {
	if !b.admin(w, r) {
		return
	}
	ck := r.PathValue("coldkey")
	if _, err := auth.ParseSS58(ck); err != nil {
		refuse(w, http.StatusBadRequest, "Invalid coldkey SS58 address")
		return
	}
	if _, err := b.setFlags(func(f *flags) { delete(f.Coldkey, ck) }); err != nil {
		b.fail(w, "unban", err)
		return
	}
	b.books.stale()
	w.WriteHeader(http.StatusNoContent)
}

// kick is DELETE /admin/validator-sessions/{hotkey}.
func (b *Backend) kick(w http.ResponseWriter, r *http.Request) {
	if !b.admin(w, r) {
		return
	}
	s := b.sessionOf(r.PathValue("hotkey"))
	if s == nil {
		refuse(w, http.StatusNotFound, "No connected validator with the given hotkey")
		return
	}
	b.drop(r.Context(), s, "the operator ended the session", true)
	w.WriteHeader(http.StatusNoContent)
}

// blacklist is PUT and DELETE /admin/blacklisted-validators/{hotkey}.
func (b *Backend) blacklist(w http.ResponseWriter, r *http.Request) {
	if !b.admin(w, r) {
		return
	}
	hotkey := r.PathValue("hotkey")
	if len(hotkey) > 100 {
		refuse(w, http.StatusBadRequest, "The name of a validator has at most 100 bytes")
		return
	}
	f, err := b.setFlags(func(f *flags) {
		f.Black = slices.DeleteFunc(f.Black, func(s string) bool { return s == hotkey })
		if r.Method == http.MethodPut {
			f.Black = append(f.Black, hotkey)
		}
	})
	if err != nil {
		b.fail(w, "blacklist", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"blacklisted_validators": append([]string{}, f.Black...)})
}

// pause is PUT and DELETE /admin/validators-paused.
func (b *Backend) pause(w http.ResponseWriter, r *http.Request) {
	if !b.admin(w, r) {
		return
	}
	f, err := b.setFlags(func(f *flags) { f.Paused = r.Method == http.MethodPut })
	if err != nil {
		b.fail(w, "pause", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"validators_paused": f.Paused})
}
