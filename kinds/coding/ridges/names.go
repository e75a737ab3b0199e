package ridges

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Seed is the seed of model calls on a problem, the same for all miners.
func Seed(problem string) int64 {
	h := sha256.Sum256([]byte(problem))
	return int64(binary.BigEndian.Uint32(h[28:]) & (1<<31 - 1))
}

var agents = uuid.MustParse("37c807fa-a7d2-4ac5-985b-e5ad6bbbc1c9")

// AgentID names an agent by what paid for it: "<block hash>:<extrinsic index>",
// or "credit:<id>:0".
func AgentID(source string) string { return uuid.NewSHA1(agents, []byte(source)).String() }

// ProblemAlias is the name under which a problem is shown. An empty family is
// one that is unknown.
func ProblemAlias(family, problem, salt string) string {
	return base32.StdEncoding.EncodeToString(digest(cmp.Or(family, "unknown")+":"+problem, salt))[:5]
}

// digest is that of a text, keyed where there is a salt.
func digest(text, salt string) []byte {
	if salt == "" {
		sum := sha256.Sum256([]byte(text))
		return sum[:]
	}
	m := hmac.New(sha256.New, []byte(salt))
	m.Write([]byte(text))
	return m.Sum(nil)
}

// The words of a test's alias, by their numbers.
var (
	aliasFirst = strings.Fields(`amber arctic bold bright calm clear cosmic crisp daring deep direct early eager electric fast fresh
		golden grand green hidden honest iron keen level light lunar modern noble open polar prime quiet
		rapid ready red royal sharp silver simple solar solid steady swift tidy true urban vivid warm
		wide wise young zenith brisk clean finite stable native public secure silent smooth square valid vertex`)
	aliasSecond = strings.Fields(`anchor atlas beacon bridge canyon cedar cipher comet compass delta ember field fjord forge garden glacier
		grove harbor horizon index island lantern matrix meadow meridian mint module node nova orbit packet path
		pillar pixel portal quartz ridge river signal spark summit switch table thread tower trace vector vista
		window zenith branch kernel ledger marker prism record schema script socket stream token valley vault vertex`)
)

// TestAlias is the name under which a test of a problem is shown. An empty category is the default one.
func TestAlias(family, problem, category, test, salt string) string {
	d := digest(cmp.Or(family, "unknown")+":"+problem+":"+cmp.Or(category, "default")+":"+test, salt)
	word := func(list []string, at int) string { return list[binary.BigEndian.Uint32(d[at:])%uint32(len(list))] }
	return strings.ToUpper(word(aliasFirst, 0)+"-"+word(aliasSecond, 4)) + "-" + base32.StdEncoding.EncodeToString(d)[:3]
}

// File is one file of a task.
type File struct {
	Path string
	Mode uint32 // permission bits
	Data []byte
}

// TaskDigest is the digest of a task's files: sorted by the parts of their paths,
// each path, mode and content. What Python and Finder leave behind does not count.
func TaskDigest(files []File) string {
	type part struct {
		at []string
		f  File
	}
	var list []part
	for _, f := range files {
		at := strings.Split(f.Path, "/")
		if base := at[len(at)-1]; base == ".DS_Store" || strings.HasSuffix(base, ".pyc") || strings.HasSuffix(base, ".pyo") || slices.Contains(at, "__pycache__") {
			continue
		}
		list = append(list, part{at, f})
	}
	slices.SortFunc(list, func(a, b part) int { return slices.Compare(a.at, b.at) })
	h := sha256.New()
	for _, p := range list {
		fmt.Fprintf(h, "%s\x00%s\x00", p.f.Path, modeText(p.f.Mode))
		h.Write(p.f.Data)
		h.Write([]byte{0})
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func modeText(m uint32) string { return strconv.FormatUint(uint64(m&0o7777), 8) }

// Ticket is what redeems a paid upload.
type Ticket struct {
	Funding   string `json:"funding"` // burn or credit
	Hotkey    string `json:"hotkey"`
	PublicKey string `json:"public_key"`
	Signature string `json:"signature"`

	QuoteID   string `json:"quote_id,omitempty"`
	BlockHash string `json:"payment_block_hash,omitempty"`
	Index     *int64 `json:"payment_extrinsic_index,omitempty"`
	CreditID  string `json:"credit_id,omitempty"`
}

// Fundings of a ticket.
const (
	Burn   = "burn"
	Credit = "credit"
)

// Text is what a ticket's signature covers.
func (t *Ticket) Text() string {
	if t.Funding == Credit {
		return fmt.Sprintf("ridges-upload-ticket:v2:%s:credit:%s", t.Hotkey, t.CreditID)
	}
	return fmt.Sprintf("ridges-upload-ticket:v2:%s:burn:%s:%s:%d", t.Hotkey, t.QuoteID, t.BlockHash, *t.Index)
}

// Encode writes a ticket as clients carry it.
func (t *Ticket) Encode() string {
	m := map[string]any{"funding": t.Funding, "hotkey": t.Hotkey, "public_key": t.PublicKey, "signature": t.Signature, "v": 2}
	if t.Funding == Credit {
		m["credit_id"] = t.CreditID
	} else {
		m["quote_id"], m["payment_block_hash"], m["payment_extrinsic_index"] = t.QuoteID, t.BlockHash, *t.Index
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(m) // strings and integers always encode
	return base64.StdEncoding.EncodeToString(bytes.TrimSpace(b.Bytes()))
}

// maxTicket bounds a ticket as it comes, in bytes.
const maxTicket = 16 << 10

// ErrTicket is a text that is not a ticket.
var ErrTicket = errors.New("malformed_ticket")

// ParseTicket reads a ticket strictly: no field twice or unknown, none of the
// other funding, version and index as whole numbers, ids as UUIDs. White space
// around it is taken off.
func ParseTicket(text string) (*Ticket, error) {
	no := func(format string, args ...any) (*Ticket, error) {
		return nil, fmt.Errorf("%w: %s", ErrTicket, fmt.Sprintf(format, args...))
	}
	text = strings.TrimSpace(text)
	if len(text) > maxTicket {
		return no("ticket: %d bytes, at most %d", len(text), maxTicket)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return no("it is not base64")
	}
	fields, err := object(raw)
	if err != nil {
		return no("%v", err)
	}
	var t Ticket
	str := func(name string, to *string) error {
		v, ok := fields[name]
		delete(fields, name)
		if s, is := v.(string); ok && is && s != "" {
			*to = s
			return nil
		}
		return fmt.Errorf("%s: want a text", name)
	}
	for _, f := range []struct {
		name string
		to   *string
	}{{"funding", &t.Funding}, {"hotkey", &t.Hotkey}, {"public_key", &t.PublicKey}, {"signature", &t.Signature}} {
		if err := str(f.name, f.to); err != nil {
			return no("%v", err)
		}
	}
	if v, ok := fields["v"].(json.Number); !ok || v.String() != "2" {
		return no("v: want 2")
	}
	delete(fields, "v")
	var ids []*string
	switch t.Funding {
	case Burn:
		if err := errors.Join(str("quote_id", &t.QuoteID), str("payment_block_hash", &t.BlockHash)); err != nil {
			return no("%v", err)
		}
		n, ok := fields["payment_extrinsic_index"].(json.Number)
		i, err := strconv.ParseInt(n.String(), 10, 64)
		if !ok || err != nil || i < 0 {
			return no("payment_extrinsic_index: want a whole number from 0")
		}
		t.Index, ids = &i, []*string{&t.QuoteID}
		delete(fields, "payment_extrinsic_index")
	case Credit:
		if err := str("credit_id", &t.CreditID); err != nil {
			return no("%v", err)
		}
		ids = []*string{&t.CreditID}
	default:
		return no("funding: want burn or credit")
	}
	for _, id := range ids {
		u, err := uuid.Parse(*id)
		if err != nil {
			return no("%q is not a UUID", *id)
		}
		*id = u.String()
	}
	for name, v := range fields { // of the other funding: only null
		if v != nil || !slices.Contains([]string{"quote_id", "payment_block_hash", "payment_extrinsic_index", "credit_id"}, name) {
			return no("%.40q does not belong there", name)
		}
	}
	return &t, nil
}

// object reads one flat JSON object without a field given twice.
func object(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	out := map[string]any{}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, errors.New("it is not a JSON object")
		}
		name, _ := k.(string)
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%.40q is given twice", name)
		}
		v, err := d.Token()
		if _, nested := v.(json.Delim); err != nil || nested {
			return nil, fmt.Errorf("%.40q: want a plain value", name)
		}
		out[name] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("it is not a JSON object")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	return out, nil
}
