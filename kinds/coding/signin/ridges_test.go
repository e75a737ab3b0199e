package signin

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
	"github.com/agon-arena/agon/auth/signing"
)

const someUUID = "6f1d1c5e-1111-4222-8333-444444444444"

func TestRidges(t *testing.T) {
	ctx := context.Background()
	alice, bob := dialecttest.Key(t, "//Alice"), dialecttest.Key(t, "//Bob")
	file := []byte("def agent_main(): pass")
	info := string(FileInfoMessage(alice.SS58(), signing.BodyHash(file), "3"))
	sig := dialecttest.Sign(t, alice, []byte(info))
	text := func(r *dialect.Refusal) string {
		if r == nil {
			return "ok"
		}
		return fmt.Sprintf("%d %s", r.Status, r.Code)
	}
	for name, c := range map[string]struct{ public, info, sig, file, want string }{
		"good":           {alice.PublicHex(), info, sig, string(file), "ok"},
		"changed byte":   {alice.PublicHex(), info, sig, "def agent_main(): Pass", "400 File is not the one that was signed"},
		"foreign key":    {bob.PublicHex(), info, dialecttest.Sign(t, bob, []byte(info)), string(file), "400 Public key does not belong to the hotkey"},
		"foreign signer": {alice.PublicHex(), info, dialecttest.Sign(t, bob, []byte(info)), string(file), "400 Invalid signature"},
		"no info":        {alice.PublicHex(), "x", sig, string(file), "400 Invalid file_info"},
		"no number":      {alice.PublicHex(), info + "x", sig, string(file), "400 Invalid file_info"},
		"short hash":     {alice.PublicHex(), alice.SS58() + ":ab:1", sig, string(file), "400 Invalid file_info"},
	} {
		v := dialecttest.Verifier(t)
		got, refusal := Ridges{}.CheckUpload(ctx, v, c.public, c.info, c.sig, []byte(c.file), true)
		if text(refusal) != c.want || refusal == nil && (got.Version != 3 || got.Hotkey != alice.SS58()) {
			t.Errorf("%s: %+v %s", name, got, text(refusal))
		}
	}
	v := dialecttest.Verifier(t)
	v.Strict = true
	for i, want := range []string{"ok", "400 Signature was used before: sign again"} {
		if _, refusal := (Ridges{}).CheckUpload(ctx, v, alice.PublicHex(), info, sig, file, true); text(refusal) != want {
			t.Errorf("use %d: %s", i+1, text(refusal))
		}
	}
	if refusal := (Ridges{}).CheckPrepare(ctx, dialecttest.Verifier(t), alice.SS58(), alice.PublicHex(), dialecttest.Sign(t, alice, []byte("ridges-upload-prepare:v2:"+alice.SS58()))); refusal != nil {
		t.Error(refusal)
	}
	for name, c := range map[string]struct {
		at   time.Duration
		sig  string
		want string
	}{
		"60 s": {-60 * time.Second, "", "ok"}, "61 s": {-61 * time.Second, "", "400 Timestamp is not within 60 seconds of the server's clock"},
		"signature first": {-61 * time.Second, "00", "401 Invalid signature"},
	} {
		at := dialecttest.Now.Add(c.at).Unix()
		if c.sig == "" {
			c.sig = dialecttest.Sign(t, alice, []byte(strconv.FormatInt(at, 10)))
		}
		if got := text(Ridges{}.CheckRegistration(ctx, dialecttest.Verifier(t), alice.SS58(), at, c.sig)); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	hello := string(HelloMessage(alice.SS58(), "c0ffee", dialecttest.Stamp(0)))
	for message, want := range map[string]string{hello: "ok", hello + "1": "401 Invalid message"} {
		if got := text(Ridges{}.CheckHello(ctx, dialecttest.Verifier(t), alice.SS58(), alice.PublicHex(), "c0ffee", dialecttest.Stamp(0), message, dialecttest.Sign(t, alice, []byte(message)))); got != want {
			t.Error(got)
		}
	}
}

func TestRidgesTicket(t *testing.T) {
	alice := dialecttest.Key(t, "//Alice")
	quote, credit := someUUID, "00000000-0000-4000-8000-000000000001"
	burnSig := dialecttest.Sign(t, alice, []byte("ridges-upload-ticket:v2:"+alice.SS58()+":burn:"+quote+":0xab:4"))
	creditSig := dialecttest.Sign(t, alice, []byte("ridges-upload-ticket:v2:"+alice.SS58()+":credit:"+credit))
	burn := `{"funding":"burn","hotkey":"` + alice.SS58() + `","payment_block_hash":"0xab","payment_extrinsic_index":4,"public_key":"` + alice.PublicHex() +
		`","quote_id":"` + quote + `","signature":"` + burnSig + `","v":2}`
	ofCredit := `{"credit_id":"` + credit + `","funding":"credit","hotkey":"` + alice.SS58() + `","public_key":"` + alice.PublicHex() + `","signature":"` + creditSig + `","v":2}`
	for name, c := range map[string]struct{ json, want string }{
		"burn":           {burn, ""},
		"credit":         {ofCredit, ""},
		"null":           {strings.Replace(burn, `"v"`, `"credit_id":null,"v"`, 1), ""},
		"other funding":  {strings.Replace(burn, `"v"`, `"credit_id":"`+credit+`","v"`, 1), "malformed_ticket"},
		"v 2.0":          {strings.Replace(burn, `:2}`, `:2.0}`, 1), "malformed_ticket"},
		"v true":         {strings.Replace(burn, `:2}`, `:true}`, 1), "malformed_ticket"},
		"twice":          {strings.Replace(burn, `"v":2`, `"v":2,"v":2`, 1), "malformed_ticket"},
		"unknown":        {strings.Replace(burn, `"v":2`, `"v":2,"x":2`, 1), "malformed_ticket"},
		"unknown null":   {strings.Replace(burn, `"v":2`, `"v":2,"x":null`, 1), "malformed_ticket"},
		"bool index":     {strings.Replace(burn, `index":4`, `index":true`, 1), "malformed_ticket"},
		"negative index": {strings.Replace(burn, `index":4`, `index":-4`, 1), "malformed_ticket"},
		"no uuid":        {strings.Replace(burn, quote, "q", 1), "malformed_ticket"},
		"funding":        {strings.Replace(burn, `"burn"`, `"gift"`, 1), "malformed_ticket"},
		"nested":         {strings.Replace(burn, `"v":2`, `"v":[2]`, 1), "malformed_ticket"},
		"no object":      {"[]", "malformed_ticket"},
		"half":           {burn[:len(burn)-1], "malformed_ticket"},
		"more":           {burn + "{}", "malformed_ticket"},
		"other index":    {strings.Replace(burn, `index":4`, `index":5`, 1), "invalid_signature"},
		"other key":      {strings.Replace(burn, alice.PublicHex(), dialecttest.Key(t, "//Bob").PublicHex(), 1), "invalid_signature"},
	} {
		ticket, refusal := Ridges{}.CheckTicket(context.Background(), dialecttest.Verifier(t), " "+base64.StdEncoding.EncodeToString([]byte(c.json))+"\n")
		if c.want == "" && (refusal != nil || ticket.Hotkey != alice.SS58()) || c.want != "" && (refusal == nil || refusal.Code != c.want) {
			t.Errorf("%s: %+v %v", name, ticket, refusal)
		}
	}
	for _, blob := range []string{"", "ridges1" + burn, "!!", strings.Repeat("A", maxTicket+4)} {
		if _, refusal := (Ridges{}).CheckTicket(context.Background(), dialecttest.Verifier(t), blob); refusal == nil || refusal.Code != "malformed_ticket" {
			t.Errorf("%.20q: %v", blob, refusal)
		}
	}
}

func FuzzParseTicket(f *testing.F) {
	f.Add("eyJ2IjoyfQ==")
	f.Fuzz(func(t *testing.T, s string) {
		if ticket, err := ParseTicket(s); err == nil && (ticket.Hotkey == "" || (ticket.CreditID == "") == (ticket.QuoteID == "")) {
			t.Fatalf("%q: %+v", s, ticket)
		}
	})
}

func FuzzParseFileInfo(f *testing.F) {
	f.Add("a:b:1")
	f.Fuzz(func(t *testing.T, s string) {
		if info, err := ParseFileInfo(s); err == nil && (info.Hotkey == "" || len(info.SHA256) != 64) {
			t.Fatalf("%q: %+v", s, info)
		}
	})
}

func TestHelloMessage(t *testing.T) {
	if got := string(HelloMessage("hk", "c", "1")); got != "validator-auth:hk:c:1" {
		t.Error(got)
	}
}
