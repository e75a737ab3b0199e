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
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/agon-arena/agon/shop"
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
