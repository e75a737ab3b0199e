// Package signin checks the signed texts of Ridges: uploads, tickets and the
// registration of its validators, and says which bytes they sign.
package signin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/signing"
	"github.com/google/uuid"
)

const ridgesWindow = 60 * time.Second

// maxTicket bounds a ticket, in bytes of its base64.
const maxTicket = 8 << 10

// Ridges checks the signed texts of that system (spec/ridges.md 4, 5), which
// stand in forms and bodies. Only the registration of a validator carries a
// time; Strict takes the signature of each other once.
type Ridges struct{}

// Name names the dialect in the replay guard.
func (Ridges) Name() string { return "ridges" }

// FileInfo is the signed text of an upload, hotkey:sha256:version.
type FileInfo struct {
	Hotkey  string
	SHA256  string
	Version int
}

// ParseFileInfo reads the form field file_info.
func ParseFileInfo(s string) (FileInfo, error) {
	parts := strings.Split(s, ":")
	if len(s) > 256 || len(parts) != 3 {
		return FileInfo{}, errors.New("file_info: want hotkey:sha256:version")
	}
	if _, err := auth.ParseSS58(parts[0]); err != nil {
		return FileInfo{}, fmt.Errorf("file_info: %w", err)
	}
	if sum, err := hex.DecodeString(parts[1]); err != nil || len(sum) != 32 {
		return FileInfo{}, errors.New("file_info: sha256 is not 64 hex digits")
	}
	// Era A sends -1 for a new agent.
	version, err := strconv.Atoi(parts[2])
	if err != nil || version < -1 {
		return FileInfo{}, errors.New("file_info: version is not a number")
	}
	return FileInfo{Hotkey: parts[0], SHA256: strings.ToLower(parts[1]), Version: version}, nil
}

// CheckUpload checks the fields of an upload: the key must be the hotkey's, the
// signature must hold, and the file must be the one that was signed. Upstream
// compared neither key (until May 2026) nor file. once is true at the route that
// takes the upload, false at the one that only asks for its price.
func (d Ridges) CheckUpload(ctx context.Context, v *dialect.Verifier, publicKey, fileInfo, signature string, file []byte, once bool) (FileInfo, *dialect.Refusal) {
	info, err := ParseFileInfo(fileInfo)
	if err != nil {
		return FileInfo{}, dialect.Plain(400, "Invalid file_info", err)
	}
	if refusal := d.check(ctx, v, 400, info.Hotkey, publicKey, signature, []byte(fileInfo), once, ""); refusal != nil {
		return FileInfo{}, refusal
	}
	if signing.BodyHash(file) != info.SHA256 {
		return FileInfo{}, dialect.Plain(400, "File is not the one that was signed", nil)
	}
	return info, nil
}

// CheckPrepare checks the fields of /upload/prepare.
func (d Ridges) CheckPrepare(ctx context.Context, v *dialect.Verifier, hotkey, publicKey, signature string) *dialect.Refusal {
	return d.check(ctx, v, 400, hotkey, publicKey, signature, PrepareMessage(hotkey), true, "")
}

// CheckRegistration checks the registration of a validator: the signature over
// the decimal text of the timestamp, then the clock. In Strict the second use
// of one signature cannot take a session over.
func (d Ridges) CheckRegistration(ctx context.Context, v *dialect.Verifier, hotkey string, timestamp int64, signature string) *dialect.Refusal {
	if refusal := d.check(ctx, v, 401, hotkey, "", signature, []byte(strconv.FormatInt(timestamp, 10)), false, ""); refusal != nil {
		return refusal
	}
	now := v.Now()
	if !dialect.Near(time.Unix(now.Unix(), 0), time.Unix(timestamp, 0), ridgesWindow) {
		return dialect.Plain(400, "Timestamp is not within 60 seconds of the server's clock", nil)
	}
	if v.Strict {
		return d.take(ctx, v, 401, hotkey, signature, now.Add(2*ridgesWindow+time.Second))
	}
	return nil
}

// CheckHello checks the first message of a validator's web socket (first era).
func (d Ridges) CheckHello(ctx context.Context, v *dialect.Verifier, hotkey, publicKey, commit, timestamp, message, signature string) *dialect.Refusal {
	if message != string(HelloMessage(hotkey, commit, timestamp)) {
		return dialect.Plain(401, "Invalid message", nil)
	}
	seconds, ok := dialect.Decimal(timestamp)
	if !ok || !dialect.Near(time.Unix(v.Now().Unix(), 0), time.Unix(seconds, 0), ridgesWindow) {
		return dialect.Plain(401, "Timestamp is not within 60 seconds of the server's clock", nil)
	}
	return d.check(ctx, v, 401, hotkey, publicKey, signature, []byte(message), true, "")
}

// check checks one signature; publicKey (64 hex digits) may be left out.
func (d Ridges) check(ctx context.Context, v *dialect.Verifier, status int, hotkey, publicKey, signature string, msg []byte, once bool, code string) *dialect.Refusal {
	refuse := func(detail string, err error) *dialect.Refusal {
		if code != "" {
			detail = code
		}
		return dialect.Plain(status, detail, err)
	}
	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		return refuse("Invalid hotkey", err)
	}
	if publicKey != "" {
		raw, err := dialect.Unhex(publicKey, 32)
		if err != nil || len(raw) != 32 || [32]byte(raw) != pub {
			return refuse("Public key does not belong to the hotkey", err)
		}
	}
	sig, err := dialect.Unhex(signature, auth.SignatureSize)
	if err != nil || !dialect.Holds(pub, sig, msg) {
		return refuse("Invalid signature", err)
	}
	if once && v.Strict {
		return d.take(ctx, v, status, hotkey, signature, v.Now().Add(dialect.Forever))
	}
	return nil
}

func (d Ridges) take(ctx context.Context, v *dialect.Verifier, status int, hotkey, signature string, until time.Time) *dialect.Refusal {
	sig, err := dialect.Unhex(signature, auth.SignatureSize)
	if err != nil {
		return dialect.Plain(status, "Invalid signature", err)
	}
	fresh, err := v.OnceSigned(ctx, d.Name(), hotkey, sig, until)
	if err != nil {
		return dialect.PlainBroken(err)
	}
	if !fresh {
		return dialect.Plain(status, "Signature was used before: sign again", nil)
	}
	return nil
}

// Ticket is a receipt of an upload that was paid for but not made.
type Ticket struct {
	Hotkey, PublicKey, Signature string
	CreditID                     string // funded by a credit
	QuoteID, BlockHash           string // funded by a burn
	ExtrinsicIndex               int64
}

// message is the text that a ticket signs.
func (t Ticket) message() []byte {
	if t.CreditID != "" {
		return []byte("ridges-upload-ticket:v2:" + t.Hotkey + ":credit:" + t.CreditID)
	}
	return fmt.Appendf(nil, "ridges-upload-ticket:v2:%s:burn:%s:%s:%d", t.Hotkey, t.QuoteID, t.BlockHash, t.ExtrinsicIndex)
}

// CheckTicket reads and checks a ticket. The refusal's Code is the upstream's
// word, malformed_ticket or invalid_signature, for both of its routes. A ticket
// is redeemed once by its quote or credit, so its signature is not remembered.
func (d Ridges) CheckTicket(ctx context.Context, v *dialect.Verifier, blob string) (Ticket, *dialect.Refusal) {
	t, err := ParseTicket(blob)
	if err != nil {
		return Ticket{}, dialect.Plain(400, "malformed_ticket", err)
	}
	return t, d.check(ctx, v, 400, t.Hotkey, t.PublicKey, t.Signature, t.message(), false, "invalid_signature")
}

// ParseTicket reads a ticket: base64 of a JSON object. It is strict: no field
// twice, none unknown, none of the other funding (null passes), integers as such.
func ParseTicket(blob string) (Ticket, error) {
	if len(blob) > maxTicket {
		return Ticket{}, fmt.Errorf("ticket of %d bytes: at most %d", len(blob), maxTicket)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(blob))
	if err != nil {
		return Ticket{}, errors.New("ticket is not base64")
	}
	fields, err := flatObject(raw)
	if err != nil {
		return Ticket{}, err
	}
	text := func(name string) string {
		s, _ := fields[name].(string)
		return s
	}
	allowed := []string{"v", "funding", "hotkey", "public_key", "signature"}
	t := Ticket{Hotkey: text("hotkey"), PublicKey: text("public_key"), Signature: text("signature")}
	switch text("funding") {
	case "credit":
		allowed = append(allowed, "credit_id")
		t.CreditID = text("credit_id")
		if _, err := uuid.Parse(t.CreditID); err != nil {
			return Ticket{}, errors.New("ticket: credit_id is not a uuid")
		}
	case "burn":
		allowed = append(allowed, "quote_id", "payment_block_hash", "payment_extrinsic_index")
		t.QuoteID, t.BlockHash = text("quote_id"), text("payment_block_hash")
		if _, err := uuid.Parse(t.QuoteID); err != nil {
			return Ticket{}, errors.New("ticket: quote_id is not a uuid")
		}
		if t.BlockHash == "" || strings.Contains(t.BlockHash, ":") {
			return Ticket{}, errors.New("ticket: payment_block_hash is not a hash")
		}
		index, ok := fields["payment_extrinsic_index"].(json.Number)
		if !ok {
			return Ticket{}, errors.New("ticket: payment_extrinsic_index is not an integer")
		}
		if t.ExtrinsicIndex, ok = dialect.Decimal(index.String()); !ok {
			return Ticket{}, errors.New("ticket: payment_extrinsic_index is not an integer from 0 on")
		}
	default:
		return Ticket{}, errors.New("ticket: funding is neither burn nor credit")
	}
	if version, ok := fields["v"].(json.Number); !ok || version.String() != "2" {
		return Ticket{}, errors.New("ticket: v is not 2")
	}
	if t.Hotkey == "" || t.PublicKey == "" || t.Signature == "" {
		return Ticket{}, errors.New("ticket: hotkey, public_key or signature is missing")
	}
	for name, value := range fields {
		known := false
		for _, a := range allowed {
			known = known || a == name
		}
		other := name == "credit_id" || name == "quote_id" || name == "payment_block_hash" || name == "payment_extrinsic_index"
		if !known && (!other || value != nil) {
			return Ticket{}, fmt.Errorf("ticket: field %.40q does not belong here", name)
		}
	}
	return t, nil
}

// flatObject reads one JSON object of plain values, none of them twice.
func flatObject(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("ticket is not a JSON object")
	}
	out := map[string]any{}
	for d.More() {
		name, err := d.Token()
		key, ok := name.(string)
		if err != nil || !ok {
			return nil, errors.New("ticket is not a JSON object")
		}
		if _, twice := out[key]; twice {
			return nil, errors.New("ticket: a field is given twice")
		}
		value, err := d.Token()
		if err != nil {
			return nil, errors.New("ticket is not a JSON object")
		}
		if _, nested := value.(json.Delim); nested {
			return nil, errors.New("ticket: a field is not a plain value")
		}
		out[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("ticket is not a JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("ticket has text after the object")
	}
	return out, nil
}
