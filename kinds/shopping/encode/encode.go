// Package encode holds encoders of titles: one that needs no model, one that
// asks a service of embeddings, and a file of precomputed vectors.
package encode

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// NgramName is the name of Ngram's vectors.
const NgramName = "agon-ngram-1"

// ngramSize is the length of Ngram's vectors.
const ngramSize = 384

// Ngram encodes a title by its words and their groups of three letters, hashed
// into a vector. Titles that share most of their words are alike, in any
// language; it knows nothing of meaning. It needs no model and gives the same
// vectors everywhere.
type Ngram struct{}

var _ shop.Encoder = Ngram{}

// Name is NgramName.
func (Ngram) Name() string { return NgramName }

// Encode never fails.
func (Ngram) Encode(_ context.Context, titles []string) ([][]float32, error) {
	out := make([][]float32, len(titles))
	for i, t := range titles {
		out[i] = ngram(t)
	}
	return out, nil
}

func ngram(title string) []float32 {
	v := make([]float32, ngramSize)
	add := func(s string, weight float32) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(s)) // a hash does not fail
		n := h.Sum64()
		if n>>63 == 1 { // the sign keeps collisions from adding up
			weight = -weight
		}
		v[n%ngramSize] += weight
	}
	for word := range strings.FieldsFuncSeq(strings.ToLower(title), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		add("="+word, 2)
		runes := []rune("<" + word + ">")
		for i := 0; i+3 <= len(runes); i++ {
			add(string(runes[i:i+3]), 1)
		}
	}
	return v
}

// Limits of vectors that come from elsewhere.
const (
	MaxDimensions = 8192
	MaxVectors    = 2_000_000
	maxVectorLine = 1 << 20
	maxReply      = 256 << 20
	maxCached     = 50_000
)

// ReadVectors reads a table of precomputed vectors, one {"title", "vector"} a
// line; all vectors are of one length and finite. The first line may say
// {"encoder": NAME}, which is returned.
func ReadVectors(in io.Reader) (name string, table map[string][]float32, err error) {
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 64<<10), maxVectorLine)
	table = map[string][]float32{}
	size := 0
	for line := 1; sc.Scan(); line++ {
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		var row struct {
			Encoder string    `json:"encoder"`
			Title   *string   `json:"title"`
			Vector  []float32 `json:"vector"`
		}
		if err := json.Unmarshal(sc.Bytes(), &row); err != nil {
			return "", nil, fmt.Errorf("read vectors: line %d: %w", line, err)
		}
		if row.Encoder != "" && row.Title == nil && len(table) == 0 {
			name = row.Encoder
			continue
		}
		switch {
		case row.Title == nil:
			return "", nil, fmt.Errorf("read vectors: line %d: title is missing", line)
		case len(row.Vector) == 0 || len(row.Vector) > MaxDimensions || (size > 0 && len(row.Vector) != size):
			return "", nil, fmt.Errorf("read vectors: line %d: vector of %d dimensions (want %d, limit %d)", line, len(row.Vector), size, MaxDimensions)
		case len(table) == MaxVectors:
			return "", nil, fmt.Errorf("read vectors: line %d: too many (limit %d)", line, MaxVectors)
		}
		size = len(row.Vector)
		if _, ok := table[*row.Title]; ok {
			return "", nil, fmt.Errorf("read vectors: line %d: title %.60q stands twice", line, *row.Title)
		}
		table[*row.Title] = row.Vector
	}
	if err := sc.Err(); err != nil {
		return "", nil, fmt.Errorf("read vectors: a line is longer than %d bytes: %w", maxVectorLine, err)
	}
	return name, table, nil
}

// Settings say where vectors come from. All empty means Ngram.
type Settings struct {
	URL, Model, Key string // a service of embeddings, see HTTPConfig
	Vectors         string // file of a table, see ReadVectors
}

// FromEnv reads AGON_ENCODER_URL, _MODEL, _KEY and _VECTORS.
func FromEnv(getenv func(string) string) Settings {
	return Settings{
		URL: getenv("AGON_ENCODER_URL"), Model: getenv("AGON_ENCODER_MODEL"), Key: getenv("AGON_ENCODER_KEY"), Vectors: getenv("AGON_ENCODER_VECTORS"),
	}
}

// Open makes the encoder that s describes. A table stands before the service:
// titles that are in it are not asked for. Without a service a title that is
// not in the table cannot be encoded.
func Open(s Settings) (shop.Encoder, error) {
	var next shop.Encoder
	switch {
	case s.URL != "":
		h, err := NewHTTP(HTTPConfig{BaseURL: s.URL, Model: s.Model, APIKey: s.Key})
		if err != nil {
			return nil, err
		}
		next = h
	case s.Vectors == "":
		return Ngram{}, nil
	}
	if s.Vectors == "" {
		return next, nil
	}
	f, err := os.Open(s.Vectors)
	if err != nil {
		return nil, fmt.Errorf("read vectors: %w", err)
	}
	defer func() { _ = f.Close() }()
	name, table, err := ReadVectors(f)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = s.Model
	}
	if name == "" {
		return nil, fmt.Errorf("read vectors: %s does not name its encoder, and no model is named", s.Vectors)
	}
	if next != nil && name != next.Name() {
		return nil, fmt.Errorf("read vectors: %s holds vectors of %.60q, not of %.60q", s.Vectors, name, next.Name())
	}
	return shop.Vectors{Model: name, Table: table, Next: next}, nil
}

// batch is how many titles WriteVectors encodes at once.
const batch = 64

// WriteVectors encodes titles, each once, and writes the table that
// ReadVectors reads. It returns how many vectors it wrote.
func WriteVectors(ctx context.Context, w io.Writer, e shop.Encoder, titles iter.Seq2[string, error]) (int, error) {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]string{"encoder": e.Name()}); err != nil {
		return 0, fmt.Errorf("write vectors: %w", err)
	}
	type row struct {
		Title  string    `json:"title"`
		Vector []float32 `json:"vector"`
	}
	var waiting []string
	seen := map[string]bool{}
	flush := func() error {
		if len(waiting) == 0 {
			return nil
		}
		vectors, err := e.Encode(ctx, waiting)
		if err != nil {
			return err
		}
		if len(vectors) != len(waiting) {
			return fmt.Errorf("encode titles: %d vectors for %d titles", len(vectors), len(waiting))
		}
		for i, t := range waiting {
			if err := enc.Encode(row{t, vectors[i]}); err != nil {
				return fmt.Errorf("write vectors: %w", err)
			}
		}
		waiting = waiting[:0]
		return nil
	}
	for t, err := range titles {
		if err != nil {
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if seen[t] {
			continue
		}
		seen[t] = true
		if waiting = append(waiting, t); len(waiting) == batch {
			if err := flush(); err != nil {
				return 0, err
			}
		}
	}
	if err := flush(); err != nil {
		return 0, err
	}
	if err := buf.Flush(); err != nil {
		return 0, fmt.Errorf("write vectors: %w", err)
	}
	return len(seen), nil
}

// HTTPConfig is a service of embeddings in OpenAI's form.
type HTTPConfig struct {
	BaseURL string // "https://host/v1": POST BaseURL/embeddings
	APIKey  string // sent as bearer where set
	Model   string
	Client  *http.Client // nil: one with a timeout of 60 s
}

// HTTP asks a service for embeddings and keeps the latest of them. It does not
// retry: the caller's attempt does.
type HTTP struct {
	cfg  HTTPConfig
	mu   sync.Mutex
	seen map[string][]float32 // at most maxCached; mu guards it
}

// NewHTTP makes the encoder without asking anything.
func NewHTTP(c HTTPConfig) (*HTTP, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("encoder address %.100q: want http(s)://host/path", c.BaseURL)
	}
	if c.Model == "" {
		return nil, errors.New("encoder model: name one")
	}
	if c.Client == nil {
		c.Client = &http.Client{Timeout: 60 * time.Second}
	}
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/")
	return &HTTP{cfg: c, seen: map[string][]float32{}}, nil
}

// Name is the model's.
func (h *HTTP) Name() string { return h.cfg.Model }

// Encode asks for the titles that it has not seen, in one request.
func (h *HTTP) Encode(ctx context.Context, titles []string) ([][]float32, error) {
	out := make([][]float32, len(titles))
	var rest []string
	at := map[string][]int{}
	h.mu.Lock()
	for i, t := range titles {
		if out[i] = h.seen[t]; out[i] == nil {
			if at[t] == nil {
				rest = append(rest, t)
			}
			at[t] = append(at[t], i)
		}
	}
	h.mu.Unlock()
	if len(rest) == 0 {
		return out, nil
	}
	vectors, err := h.ask(ctx, rest)
	if err != nil {
		return nil, fmt.Errorf("encode titles: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, t := range rest {
		if len(h.seen) >= maxCached {
			clear(h.seen)
		}
		h.seen[t] = vectors[i]
		for _, j := range at[t] {
			out[j] = vectors[i]
		}
	}
	return out, nil
}

func (h *HTTP) ask(ctx context.Context, titles []string) ([][]float32, error) {
	body, err := json.Marshal(map[string]any{"model": h.cfg.Model, "input": titles, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.cfg.BaseURL+"/embeddings", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if h.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+h.cfg.APIKey)
	}
	resp, err := h.cfg.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the service answered %d", resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxReply {
		return nil, fmt.Errorf("the reply is larger than %d bytes", maxReply)
	}
	var reply struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		return nil, fmt.Errorf("the reply is not understood: %w", err)
	}
	out := make([][]float32, len(titles))
	size := 0
	for _, d := range reply.Data {
		n := len(d.Embedding)
		if d.Index < 0 || d.Index >= len(out) || out[d.Index] != nil || n == 0 || n > MaxDimensions || (size > 0 && n != size) {
			return nil, errors.New("the reply's vectors do not fit the titles")
		}
		for _, f := range d.Embedding {
			if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
				return nil, errors.New("the reply's vectors are not finite")
			}
		}
		out[d.Index], size = d.Embedding, n
	}
	if len(reply.Data) != len(titles) {
		return nil, fmt.Errorf("%d vectors for %d titles", len(reply.Data), len(titles))
	}
	return out, nil
}
