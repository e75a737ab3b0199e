package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
)

// Bytes of bodies that are in memory at once: whoever reads a body has only
// claimed a key so far. A forged claim must not take the room of the key's
// owner, so a key is counted together with its address.
const (
	inflightTotal   = 192 << 20
	inflightAddress = 128 << 20
	inflightKey     = 96 << 20
	inflightFree    = 16 << 10 // of each body, uncounted: a small request always goes
)

// inflight is one budget of bytes, with caps per address and per key there.
type inflight struct {
	mu    sync.Mutex
	total int64
	by    map[string]int64
}

var errInflight = errors.New("no room for the body")

// take counts n more bytes for all of keys, each with its cap, or none.
func (f *inflight) take(n int64, address, key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.total+n > inflightTotal || f.by[address]+n > inflightAddress || f.by[key]+n > inflightKey {
		return false
	}
	if f.by == nil {
		f.by = map[string]int64{}
	}
	f.total += n
	f.by[address] += n
	f.by[key] += n
	return true
}

func (f *inflight) give(n int64, address, key string) {
	if n == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total -= n
	for _, k := range []string{address, key} {
		if f.by[k] -= n; f.by[k] == 0 {
			delete(f.by, k)
		}
	}
}

// read reads a body of at most limit bytes. What it holds is counted as it
// grows, by what is allocated; done gives it back.
func (f *inflight) read(r *http.Request, hotkey string, limit int64) (body []byte, done func(), err error) {
	host := auth.RemoteHost(r)
	address, key := "address "+host, "key "+host+" "+hotkey
	var held int64
	done = func() {
		f.give(held, address, key)
		held = 0
	}
	src := io.LimitReader(r.Body, limit+1)
	var b bytes.Buffer
	for {
		if b.Available() < bytes.MinRead {
			// Doubled by hand, so that the copy is counted before it is made.
			want := int64(max(2*b.Cap(), 4<<10))
			if r.ContentLength > 0 {
				want = min(want, max(r.ContentLength+bytes.MinRead, int64(b.Len())+2*bytes.MinRead))
			}
			if more := want - inflightFree - held; more > 0 {
				if !f.take(more, address, key) {
					return nil, done, errInflight
				}
				held += more
			}
			grown := bytes.NewBuffer(make([]byte, 0, want))
			_, _ = grown.Write(b.Bytes()) // never fails: there is room
			b = *grown
		}
		p := b.AvailableBuffer()
		n, err := src.Read(p[:b.Available()])
		_, _ = b.Write(p[:n])
		switch {
		case errors.Is(err, io.EOF):
			return b.Bytes(), done, nil
		case err != nil:
			return nil, done, err
		}
	}
}

func noRoom() *agon.Error {
	return &agon.Error{
		Code: "busy", Status: http.StatusServiceUnavailable, Field: "body", Fault: agon.FaultPlatform,
		Message: "too many bytes are being received at once", Mend: "send it again in a moment",
	}
}
