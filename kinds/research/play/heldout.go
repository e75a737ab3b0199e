package play

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Names of held-out data in a task's private environment (spec/bitsota.md 5.5).
// The first three and the tokens never reach a box.
const (
	heldoutSources = "AUTORESEARCH_HELDOUT_SOURCES_JSON"
	heldoutSlot    = "AUTORESEARCH_HELDOUT_SYNC_SLOT"
	heldoutNumber  = "AUTORESEARCH_HELDOUT_SYNC_NUMBER"
	manifestFile   = "manifest.json"
)

var heldoutTokens = []string{"AUTORESEARCH_PRIVATE_HELDOUT_HF_TOKEN", "HF_TOKEN", "HUGGINGFACE_TOKEN"}

// defaultRowsURL answers rows of published data sets.
const defaultRowsURL = "https://datasets-server.huggingface.co/rows"

// Bounds of held-out data.
const (
	maxHeldoutSources = 100
	maxHeldoutRows    = 2000     // of one source
	maxHeldoutBytes   = 64 << 20 // of all documents
	maxRowsReply      = 32 << 20
)

// heldoutSource reports variables that are for the prefetch only.
func heldoutSource(name string) bool {
	return name == heldoutSources || name == heldoutSlot || name == heldoutNumber || slices.Contains(heldoutTokens, name)
}

// HeldoutDocument is one text of a manifest.
type HeldoutDocument struct {
	Text     string `json:"text"`
	Category string `json:"category,omitempty"`
}

// heldoutEntry is one source: a text, or rows of a data set.
type heldoutEntry struct {
	HeldoutDocument
	Source         string          `json:"source"`
	Dataset        string          `json:"dataset"`
	HFDataset      string          `json:"hf_dataset"`
	Config         string          `json:"config"`
	Subset         string          `json:"subset"`
	Split          string          `json:"split"`
	TextColumn     string          `json:"text_column"`
	TextColumns    []string        `json:"text_columns"`
	Offset         int64           `json:"offset"`
	Limit          int64           `json:"limit"`
	PageSize       int64           `json:"page_size"`
	MinChars       int             `json:"min_chars"`
	MaxChars       int             `json:"max_chars"`
	FieldSeparator *string         `json:"field_separator"`
	Rotate         json.RawMessage `json:"rotate"`
	OffsetFromSync json.RawMessage `json:"offset_from_sync"`
	RowCount       int64           `json:"row_count"`
	NumRowsTotal   int64           `json:"num_rows_total"`
}

// HeldoutOffset is where the rows of a rotating source begin: a number that
// everybody who knows slot and number derives alike. rows must be more than limit.
func HeldoutOffset(dataset, config, split string, base, limit int64, slot, number string, rows int64) int64 {
	h := sha256.Sum256(fmt.Appendf(nil, "%s:%s:%s:%d:%d:%s:%s", dataset, config, split, base, limit, slot, number))
	seed := new(big.Int).SetUint64(binary.BigEndian.Uint64(h[:8]))
	return new(big.Int).Mod(seed, big.NewInt(rows-limit+1)).Int64()
}

// hiddenData finds the task's hidden directory, and makes the manifest of
// held-out documents where the private environment names their sources.
func (p *player) hiddenData(ctx context.Context) error {
	own := exists(p.dir, HiddenDir)
	dir := filepath.Join(p.dir, filepath.FromSlash(HiddenDir))
	raw := p.priv.BenchmarkEnv[heldoutSources]
	if raw == "" {
		if own {
			p.hidden = dir
		}
		return nil
	}
	docs, version, sources, err := p.k.prefetch(ctx, raw, p.priv.BenchmarkEnv)
	if err != nil {
		return fmt.Errorf("prefetch held-out data: %w", err)
	}
	p.hidden = filepath.Join(p.tmp, "hidden")
	if err := os.Mkdir(p.hidden, 0o755); err != nil {
		return fmt.Errorf("make held-out directory: %w", err)
	}
	if own {
		if err := copyTree(dir, p.hidden); err != nil {
			return fmt.Errorf("copy hidden data: %w", err)
		}
	}
	b, err := json.Marshal(map[string]any{
		"documents": docs, "metadata": map[string]any{"source": "validator-private-shard", "source_version": version, "source_count": sources},
	})
	if err != nil {
		return fmt.Errorf("encode held-out manifest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(p.hidden, manifestFile), b, 0o644); err != nil {
		return fmt.Errorf("write held-out manifest: %w", err)
	}
	p.line(fmt.Sprintf("heldout_prefetch=ok heldout_prefetch_sources=%d heldout_prefetch_documents=%d heldout_prefetch_manifest_sha256=%x", sources, len(docs), sha256.Sum256(b)))
	return nil
}

// prefetch turns sources into documents.
func (k *Kind) prefetch(ctx context.Context, raw string, env map[string]string) (docs []HeldoutDocument, version string, sources int, err error) {
	var list []json.RawMessage
	var doc struct {
		Version   any               `json:"version"`
		Documents []json.RawMessage `json:"documents"`
	}
	if json.Unmarshal([]byte(raw), &list) != nil {
		if err := json.Unmarshal([]byte(raw), &doc); err != nil {
			return nil, "", 0, fmt.Errorf("%s is neither a list nor an object with documents", heldoutSources)
		}
		list = doc.Documents
		if doc.Version != nil {
			version = fmt.Sprint(doc.Version)
		}
	}
	if len(list) == 0 || len(list) > maxHeldoutSources {
		return nil, "", 0, fmt.Errorf("%s names %d sources, from 1 to %d are allowed", heldoutSources, len(list), maxHeldoutSources)
	}
	total := 0
	for i, raw := range list {
		var text string
		var e heldoutEntry
		got := []HeldoutDocument{}
		switch {
		case json.Unmarshal(raw, &text) == nil:
			got = append(got, HeldoutDocument{Text: text})
		case json.Unmarshal(raw, &e) != nil:
			return nil, "", 0, fmt.Errorf("source %d: neither a string nor an object", i)
		case e.Text != "":
			got = append(got, e.HeldoutDocument)
		default:
			if got, err = k.rows(ctx, e, env); err != nil {
				return nil, "", 0, fmt.Errorf("source %d: %w", i, err)
			}
		}
		for _, d := range got {
			if total += len(d.Text); total > maxHeldoutBytes {
				return nil, "", 0, fmt.Errorf("documents hold more than %d bytes", maxHeldoutBytes)
			}
		}
		docs = append(docs, got...)
	}
	return docs, version, len(list), nil
}

// rows fetches the documents of a data set, page by page.
func (k *Kind) rows(ctx context.Context, e heldoutEntry, env map[string]string) ([]HeldoutDocument, error) {
	first := func(words ...string) string {
		for _, w := range words {
			if w != "" {
				return w
			}
		}
		return ""
	}
	dataset := first(e.Dataset, e.HFDataset)
	columns := e.TextColumns
	if e.TextColumn != "" {
		columns = []string{e.TextColumn}
	}
	if !strings.Contains(dataset, "/") || e.Split == "" || len(columns) == 0 {
		return nil, fmt.Errorf("rows need a dataset with a slash, a split and a text column")
	}
	if e.Limit == 0 {
		e.Limit = 100
	}
	if e.Limit < 1 || e.Limit > maxHeldoutRows || e.Offset < 0 {
		return nil, fmt.Errorf("limit %d, from 1 to %d are allowed", e.Limit, maxHeldoutRows)
	}
	page := e.PageSize
	if page < 1 || page > 100 {
		page = 100
	}
	if e.MinChars == 0 {
		e.MinChars = 1
	}
	if e.MaxChars <= 0 {
		e.MaxChars = 6000
	}
	sep := "\n\n"
	if e.FieldSeparator != nil {
		sep = *e.FieldSeparator
	}
	count := max(e.RowCount, e.NumRowsTotal)
	slot, number := env[heldoutSlot], env[heldoutNumber]
	offset := e.Offset
	if (truthy(e.Rotate) || truthy(e.OffsetFromSync)) && count > e.Limit && (slot != "" || number != "") {
		offset = HeldoutOffset(dataset, first(e.Config, "default"), e.Split, e.Offset, e.Limit, slot, number, count)
	}
	var token string
	for _, name := range heldoutTokens {
		token = first(token, env[name])
	}
	category := first(e.Category, dataset)
	var out []HeldoutDocument
	for end := offset + e.Limit; offset < end; offset += page {
		n := min(page, end-offset)
		got, err := k.page(ctx, url.Values{
			"dataset": {dataset}, "config": {first(e.Config, e.Subset, "default")}, "split": {e.Split},
			"offset": {strconv.FormatInt(offset, 10)}, "length": {strconv.FormatInt(n, 10)},
		}, token)
		if err != nil {
			return nil, err
		}
		for _, row := range got {
			var parts []string
			for _, c := range columns {
				var s string
				if json.Unmarshal(row[c], &s) == nil && strings.TrimSpace(s) != "" {
					parts = append(parts, strings.TrimSpace(s))
				}
			}
			text := strings.Join(parts, sep)
			if r := []rune(text); len(r) > e.MaxChars {
				text = string(r[:e.MaxChars])
			}
			if utf8.RuneCountInString(text) >= e.MinChars {
				out = append(out, HeldoutDocument{Text: text, Category: category})
			}
		}
		if int64(len(got)) < n {
			break
		}
	}
	return out, nil
}

func truthy(raw json.RawMessage) bool {
	switch strings.ToLower(strings.Trim(string(raw), `"`)) {
	case "1", "true", "yes":
		return true
	}
	return false
}

// page asks for rows, three times at most.
func (k *Kind) page(ctx context.Context, q url.Values, token string) ([]map[string]json.RawMessage, error) {
	base := k.cfg.RowsURL
	if base == "" {
		base = defaultRowsURL
	}
	var last error
	for range 3 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"?"+q.Encode(), nil)
		if err != nil {
			return nil, fmt.Errorf("ask for rows: %w", err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		var rows []map[string]json.RawMessage
		if rows, last = k.ask(req); last == nil {
			return rows, nil
		}
	}
	return nil, last
}

func (k *Kind) ask(req *http.Request) ([]map[string]json.RawMessage, error) {
	resp, err := k.cfg.Artifacts.Client().Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for rows: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxRowsReply+1))
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	if resp.StatusCode != http.StatusOK || len(b) > maxRowsReply {
		return nil, fmt.Errorf("ask for rows: status %d, %d bytes", resp.StatusCode, len(b))
	}
	var doc struct {
		Rows []struct {
			Row map[string]json.RawMessage `json:"row"`
		} `json:"rows"`
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&doc); err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	out := make([]map[string]json.RawMessage, len(doc.Rows))
	for i, r := range doc.Rows {
		out[i] = r.Row
	}
	return out, nil
}
