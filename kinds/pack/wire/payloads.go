package wire

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/served"
	"github.com/agon-arena/agon/kinds/pack/consensus"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

// Limits of what validators without a platform store here.
const (
	maxPayload   = 512 << 10 // of a posted payload, in bytes
	keepPayloads = 16        // per validator; older ones go
)

// payloads is which payloads are kept for whom, oldest first.
type payloads struct {
	mu sync.Mutex // held while the list and its documents are changed
}

const payloadList = "payloads"

func payloadName(d agon.Digest) string { return "payload-" + d.Hex() }

// putPayload keeps what a validator measured in a window, under its hash.
func (b *Backend) putPayload(w http.ResponseWriter, r *http.Request) {
	raw, err := served.Body(w, r, maxPayload)
	var q struct {
		signer
		Payload json.RawMessage `json:"payload"`
	}
	switch {
	case errors.Is(err, served.ErrLarge):
		reply(w, http.StatusBadRequest, problem{Error: "body must be ≤524288 bytes", Code: "too_large", Field: "body", Limit: "524288 bytes"})
		return
	case err == nil:
		err = decode(raw, &q)
	}
	switch {
	case err != nil:
		badObject(w, err)
		return
	case !strings.HasPrefix(string(q.Payload), "{"):
		refuse(w, http.StatusBadRequest, "bad_field", "payload", "payload must be an object")
		return
	}
	p, err := consensus.Parse(q.Payload)
	if err != nil {
		b.refused(w, "payload", err)
		return
	}
	if p.Validator != q.Validator {
		refuse(w, http.StatusBadRequest, "bad_field", "payload", "payload names another validator_hotkey")
		return
	}
	if !b.check(w, r, signin.Consensus, q.fields()) {
		return
	}
	v, err := packfile.ParseLimit(q.Payload)
	if err != nil {
		b.refused(w, "payload", err)
		return
	}
	content := v.Compact()
	d := agon.Sum(content)
	known, err := b.keepPayload(q.Validator, d, content)
	if err != nil {
		b.refused(w, "payload", err)
		return
	}
	at := b.base(r) + "/c/" + string(d)
	status := http.StatusOK
	if known {
		status = http.StatusConflict // and as good: clients take it as stored
	}
	reply(w, status, map[string]any{"success": true, "content_hash": string(d), "url": at, "short_url": at})
}

// keepPayload stores content for a validator and drops its oldest.
func (b *Backend) keepPayload(hotkey string, d agon.Digest, content []byte) (known bool, err error) {
	b.payloads.mu.Lock()
	defer b.payloads.mu.Unlock()
	list := map[string][]agon.Digest{}
	if _, err := b.dir.Get(payloadList, &list); err != nil {
		return false, err
	}
	if slices.Contains(list[hotkey], d) {
		return true, nil
	}
	// As text: JSON inside of JSON would be written in another way.
	if err := b.dir.Put(payloadName(d), string(content)); err != nil {
		return false, err
	}
	list[hotkey] = append(list[hotkey], d)
	var gone []agon.Digest
	if n := len(list[hotkey]) - keepPayloads; n > 0 {
		gone, list[hotkey] = list[hotkey][:n], list[hotkey][n:]
	}
	if err := b.dir.Put(payloadList, list); err != nil {
		return false, err
	}
	for _, old := range gone {
		if err := b.dir.Remove(payloadName(old)); err != nil {
			b.cfg.Log.Warn("dropping an old payload", "err", err)
		}
	}
	return false, nil
}

// payload answers for one payload by its hash.
func (b *Backend) payload(w http.ResponseWriter, r *http.Request) {
	d := agon.Digest(r.PathValue("hash"))
	var content string
	if d.Validate() == nil {
		ok, err := b.dir.Get(payloadName(d), &content)
		if err != nil {
			b.broken(w, "payload", err)
			return
		}
		if ok {
			send(w, http.StatusOK, []byte(content))
			return
		}
	}
	fail(w, http.StatusNotFound, "No payload of that hash is kept")
}
