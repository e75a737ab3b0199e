package served

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Document is bytes to send, and the same compressed, made when first asked for.
type Document struct {
	body []byte
	once sync.Once
	gz   []byte // nil: it does not pay
}

// New returns a document of body, which stays as it is.
func New(body []byte) *Document { return &Document{body: body} }

// Bytes are the document's own, not to be changed.
func (d *Document) Bytes() []byte { return d.body }

// minZip is below what a packet takes anyway.
const minZip = 1400

var zippers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func (d *Document) zipped() []byte {
	d.once.Do(func() {
		if len(d.body) < minZip {
			return
		}
		var b bytes.Buffer
		z := zippers.Get().(*gzip.Writer)
		defer zippers.Put(z)
		z.Reset(&b)
		_, _ = z.Write(d.body) // a buffer takes all
		if z.Close() == nil && b.Len() < len(d.body) {
			d.gz = b.Bytes()
		}
	})
	return d.gz
}

// takesGzip reads Accept-Encoding; what it does not understand it takes for no.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" {
			return strings.TrimSpace(q) != "q=0"
		}
	}
	return false
}

// Write sends d in the form that r takes. Only what holds no secret beside what a
// stranger can put into it may be sent so: compressing would tell it.
func (d *Document) Write(w http.ResponseWriter, r *http.Request, status int) {
	b, h := d.body, w.Header()
	h.Add("Vary", "Accept-Encoding")
	if takesGzip(r) {
		if gz := d.zipped(); gz != nil {
			b = gz
			h.Set("Content-Encoding", "gzip")
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client is gone if this fails
}

// Raw sends the bytes as they are: of a document that does not get smaller.
func (d *Document) Raw(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	_, _ = w.Write(d.body) // a reader that has gone
}
