package consensus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
)

// spoken is a validator that pointed to a payload in time.
type spoken struct {
	words
	hotkey string
	stake  float64 // alpha
}

// Bounds of reading payloads. A validator that was away reads those of several windows at once: stores that are silent
// hold it up for fetchTime in aheadWindows windows, not in each.
const (
	readers      = 64 // payloads of a window at once: a subnet has 64 validators
	aheadWindows = 8
	aheadBytes   = 32 << 20 // of past windows that are held at once: what is more is read again in its turn
)

// parsing bounds how many payloads are taken apart at once: hostile ones take far more
// memory than they have bytes.
var parsing = make(chan struct{}, 2)

// errFull says that a payload was read too early.
var errFull = errors.New("enough payloads are held")

// crowd asks many servers at once, each for fetchTime at most.
type crowd struct {
	sync.WaitGroup
	ctx  context.Context // of one call, which ends by Wait
	slot chan struct{}
}

// newCrowd asks at most width at once.
func newCrowd(ctx context.Context, width int) *crowd {
	return &crowd{ctx: ctx, slot: make(chan struct{}, width)}
}

// ask waits for a place and asks beside the others.
func (c *crowd) ask(do func(context.Context)) {
	c.slot <- struct{}{}
	c.Go(func() {
		defer func() { <-c.slot }()
		ctx, cancel := context.WithTimeout(c.ctx, fetchTime)
		defer cancel()
		do(ctx)
	})
}

// readAhead reads the payloads of past windows before they are decided one after the other.
func (n *Node) readAhead(ctx context.Context, m *ledger.Metagraph, all map[string][]pointer, windows []int64) {
	n.ahead = nil // of the windows before
	var heard []spoken
	known := map[string]bool{}
	for _, w := range windows {
		end, _ := n.closes(w, m.Block)
		opens := n.shows(w, m.Block)
		for _, hotkey := range slices.Sorted(maps.Keys(all)) {
			neuron, _ := m.Neuron(hotkey)
			if !(float64(neuron.Stake)/1e9 >= n.minStake()) {
				continue
			}
			if d := sortOut(all[hotkey], w, opens, end); d.first != nil && !known[d.first.at.Address] {
				known[d.first.at.Address] = true
				heard = append(heard, spoken{words: d})
			}
		}
	}
	read, errs := n.readAll(ctx, m.Block, heard, readers*aheadWindows, aheadBytes)
	n.ahead = map[string]Submission{}
	for i, d := range heard {
		if errs[i] == nil {
			n.ahead[d.first.at.Address] = read[i]
		}
	}
}

// readAll gets the payloads that validators pointed to, width at once, each within
// fetchTime, and keeps most bytes of them; the others have errFull. An address that gave nothing is asked again some blocks later: a 288th of
// the window, then ever more.
func (n *Node) readAll(ctx context.Context, block uint64, list []spoken, width int, most int64) ([]Submission, []error) {
	out, errs := make([]Submission, len(list)), make([]error, len(list))
	asked := make([]bool, len(list))
	get := newCrowd(ctx, width)
	var held atomic.Int64
	for i, d := range list {
		var here bool
		if out[i], here = n.ahead[d.first.at.Address]; here {
			continue
		}
		if errs[i] = n.unread.mute(d.first.at.Address, block); errs[i] != nil {
			continue
		}
		asked[i] = true
		get.ask(func(ctx context.Context) {
			s, size, err := n.read(ctx, d.first.at.Address)
			if err == nil && held.Add(size) > most {
				held.Add(-size)
				err = errFull
			}
			if errs[i] = err; err == nil {
				out[i] = s
			}
		})
	}
	get.Wait()
	first := max(1, uint64(max(0, n.cfg.Window.Blocks))*firstSilent/uint64(packfile.WindowBlocks))
	for i, d := range list {
		switch {
		case errs[i] == nil:
			delete(n.unread, d.first.at.Address)
		case asked[i] && ctx.Err() == nil && !errors.Is(errs[i], errFull):
			n.unread.failed(d.first.at.Address, errs[i], block, first, first*mostSilent/firstSilent)
		}
	}
	return out, errs
}

// place is where bytes may lie, and says which it is.
type place func(ctx context.Context) (b []byte, source string, err error)

// patience is how long a place may be silent before the next is asked besides.
const patience = 5 * time.Second

// firstOf asks places in their order until one has the bytes. The next is asked as soon
// as one fails, or is silent for patience. Where all fail the error is of those that
// failed otherwise than by ErrNotHere, or that.
func firstOf(ctx context.Context, places []place) ([]byte, string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		b      []byte
		source string
		err    error
	}
	answers := make(chan answer, len(places))
	asked, failed := 0, 0
	next := func() {
		if asked == len(places) {
			return
		}
		get := places[asked]
		asked++
		go func() {
			b, source, err := get(ctx)
			answers <- answer{b, source, err}
		}()
	}
	var errs error
	for next(); failed < asked; {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.b, a.source, nil
			}
			failed++
			if !errors.Is(a.err, ErrNotHere) {
				errs = errors.Join(errs, a.err)
			}
			next()
		case <-time.After(patience):
			next()
		}
	}
	if errs == nil {
		errs = ErrNotHere
	}
	return nil, "", errs
}

// passing says that another try may get a payload: its store did not answer, or not well.
func passing(err error) bool {
	var own *agon.Error
	if errors.As(err, &own) {
		return own.Code == "timeout" || own.Code == "cut_short" || own.Code == "bad_status"
	}
	return !errors.Is(err, ErrNotHere)
}

// read gets a payload by its address, with its size, and checks its bytes.
func (n *Node) read(ctx context.Context, address string) (Submission, int64, error) {
	cid, url := packfile.DualAddress(address)
	var places []place
	if cid != "" {
		places = append(places, func(ctx context.Context) ([]byte, string, error) { return n.cfg.Store.Get(ctx, cid) })
	}
	if url != "" {
		places = append(places, func(ctx context.Context) ([]byte, string, error) {
			b, err := n.cfg.FetchPayload(ctx, url)
			return b, "url", err
		})
	}
	b, source, err := firstOf(ctx, places)
	if err != nil {
		return Submission{}, 0, fmt.Errorf("payload %.100s: %w", address, err)
	}
	// A bare URL names no bytes: what it gives is not believed, unless it ends with their digest.
	s := Submission{Source: source, Sum: agon.Sum(b), Intact: cid != "" && Verify(cid, b) || cid == "" && Verify(url, b)}
	parsing <- struct{}{}
	defer func() { <-parsing }()
	if s.Payload, err = Parse(b); err != nil {
		return Submission{}, 0, err
	}
	return s, int64(len(b)), nil
}
