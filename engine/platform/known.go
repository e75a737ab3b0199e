package platform

import (
	"sync"
	"time"

	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
)

// known are the words of validators as of a version of what they are made of
// (store.Tx.Standing): every claim and result asks for one, and few change any. The zero
// value is ready.
type known struct {
	mu      sync.Mutex
	version int64                // guarded by mu
	words   map[string]knownWord // guarded by mu; of version
}

type knownWord struct {
	word   score.Word
	record store.ValidatorRecord
	since  time.Time // the cases of that time and later are counted
}

// How long a word is kept that nothing here has changed: cases get old, and other
// processes that share the store do not say what they change.
const (
	knownFor       = time.Minute
	knownForShared = time.Second
)

func (k *known) get(version int64, validator string, since time.Time, shared bool) (w knownWord, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok = k.words[validator]
	most := knownFor
	if shared {
		most = knownForShared
	}
	age := since.Sub(w.since)
	return w, ok && k.version == version && age >= 0 && age < most
}

func (k *known) put(version int64, validator string, w knownWord) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if version < k.version {
		return
	}
	if version > k.version || k.words == nil || len(k.words) >= maxKnown {
		k.version, k.words = version, map[string]knownWord{}
	}
	k.words[validator] = w
}

// maxKnown bounds the validators whose words are kept.
const maxKnown = 4096

// word is what is known of a validator. Where other processes write to the store, it
// may be a second old.
func (p *Platform) word(tx *store.Tx, validator string) (w score.Word, r store.ValidatorRecord, err error) {
	version, ok := tx.Standing()
	since := p.now().Add(-standingFor)
	if ok {
		if k, ok := p.known.get(version, validator, since, p.cfg.Store.Shared()); ok {
			return k.word, k.record, nil
		}
	}
	if w, r, err = p.readWord(tx, validator); err == nil && ok {
		p.known.put(version, validator, knownWord{word: w, record: r, since: since})
	}
	return w, r, err
}
