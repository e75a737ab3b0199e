package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

// Who is played in a window, as validators of the fifth generation ask.
const (
	frozenBefore = 720            // blocks before the window at which entries are counted
	frozenFor    = 48 * time.Hour // older entries are not played again
	frozenPrefix = "frozen-"
)

// frozenEntry is a miner's pack in a window.
type frozenEntry struct {
	UID     *uint16 `json:"uid"`
	Hotkey  string  `json:"hotkey"`
	Hash    string  `json:"pack_hash"`
	URL     string  `json:"pack_url"`
	Refresh *string `json:"refresh_time"`
	Status  string  `json:"pre_eval_status"` // passed or failed
	Reason  *string `json:"pre_eval_reason"`
}

// epochSnapshot is the list of packs of a window. It is made when it is first asked for,
// from 720 blocks before the window on, and is the same bytes for everybody ever after:
// what enters later is not in it.
func (b *Backend) epochSnapshot(w http.ResponseWriter, r *http.Request) {
	if b.without(w) {
		return
	}
	var q struct {
		signer
		Epoch json.RawMessage `json:"epoch_number"`
	}
	if r.Method == http.MethodPost {
		if !object(w, r, &q) {
			return
		}
	} else {
		v := r.URL.Query()
		q.Validator, q.Signature, q.Timestamp.text = v.Get("validator_hotkey"), v.Get("signature"), v.Get("timestamp")
		q.Epoch = json.RawMessage(v.Get("epoch_number"))
	}
	const mostEpoch = 1 << 40
	var epoch whole
	if err := epoch.UnmarshalJSON(q.Epoch); err != nil || epoch.text == "" || epoch.n < 0 || epoch.n > mostEpoch {
		refuse(w, http.StatusBadRequest, "bad_field", "epoch_number", "epoch_number is required and must be a non-negative integer")
		return
	}
	if !b.check(w, r, signin.Snapshot, q.fields()) {
		return
	}
	b.freezing.Lock()
	defer b.freezing.Unlock()
	var frozen json.RawMessage
	name := frozenPrefix + epoch.text
	ok, err := b.dir.Get(name, &frozen)
	if err != nil {
		b.broken(w, "snapshot", err)
		return
	}
	if !ok {
		s := b.with(w, r, "snapshot")
		if s == nil {
			return
		}
		cut := max(0, epoch.n*packfile.WindowBlocks-frozenBefore)
		if int64(s.graph.Block) < cut {
			refuse(w, http.StatusNotFound, "not_found", "epoch_number", "Snapshot for epoch %d is not available yet", epoch.n)
			return
		}
		frozen = encode(b.freeze(s, epoch.n, cut, b.base(r)))
		if err := b.dir.Put(name, frozen); err != nil {
			b.broken(w, "snapshot", err)
			return
		}
	}
	send(w, http.StatusOK, frozen)
}

// freeze lists who had entered by a block: each miner's newest pack of the two days before.
func (b *Backend) freeze(s *snapshot, epoch, cut int64, base string) map[string]any {
	at := s.at.Add(-time.Duration(int64(s.graph.Block)-cut) * s.blockTime)
	from := at.Add(-frozenFor)
	list := []frozenEntry{}
	for miner, entries := range s.byMiner { // newest first
		i := slices.IndexFunc(entries, func(e *entry) bool { return !e.CreatedAt.After(at) && e.pack.Hash != "" })
		if i < 0 || entries[i].CreatedAt.Before(from) {
			continue
		}
		e := entries[i]
		x := frozenEntry{UID: s.uid(miner), Hotkey: miner, Hash: e.pack.Hash, Refresh: stamp(e.CreatedAt), Status: "passed", URL: base + "/api/v2/validators/epoch_snapshot/" + e.pack.Hash + "/" + b.book.token(e.pack.Hash) + ".json"}
		if why := e.refusalReason(); why != "" {
			x.Status, x.Reason = "failed", &why
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(x, y frozenEntry) int {
		return cmp.Or(cmp.Compare(*x.Refresh, *y.Refresh), cmp.Compare(x.Hotkey, y.Hotkey))
	})
	return map[string]any{
		"epoch_number": epoch, "built_at": stamp(b.cfg.Now()), "window_start": epoch * packfile.WindowBlocks, "cutoff_block": cut, "cutoff_time": stamp(at), "eligible_start_time": stamp(from),
		"inactivity_window_hours": frozenFor.Hours(), "snapshot_block": s.graph.Block, "entries": list,
	}
}

// frozenPack is a pack under the name that a snapshot gives it, which only validators learn.
func (b *Backend) frozenPack(w http.ResponseWriter, r *http.Request) {
	hash := r.PathValue("hash")
	if b.book == nil || r.PathValue("file") != b.book.token(hash)+".json" {
		fail(w, http.StatusNotFound, "Pack not found")
		return
	}
	s := b.with(w, r, "pack of a snapshot")
	if s == nil {
		return
	}
	e := s.find("", hash)
	if e == nil {
		fail(w, http.StatusNotFound, "Pack not found")
		return
	}
	b.sendPack(w, r, e.ID)
}

// sendPack answers with the canonical form of a submission's pack.
func (b *Backend) sendPack(w http.ResponseWriter, r *http.Request, submission string) {
	files, err := b.cfg.Platform.SubmissionFiles(r.Context(), operator, submission)
	if err != nil {
		b.broken(w, fmt.Sprint("pack of submission ", strconv.Quote(submission)), err)
		return
	}
	for _, f := range files {
		if f.Path == kindpack.File {
			if p, err := packfile.Read(f.Content); err == nil {
				send(w, http.StatusOK, p.Canonical)
				return
			}
		}
	}
	fail(w, http.StatusNotFound, "Pack not found")
}
