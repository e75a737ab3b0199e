package signin

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/calc"
)

// wireW is body (W) of spec/bitsota.md 3.
const wireW = `{"claim_id": "c1", "base_ref": "main", "patch": "diff --git a/x b/x\n+\u00e9\ud83d\ude00 \"q\" \\ / <&> \u007f\t\u0001\r\n", "summary": "s", "claimed_metrics": {"heldout_ppl": 0.0, "tiny": 1e-07, "n": 3, "big": 1e+16, "neg": -2.5}}`

// The four golden vectors, and what a server must make of their neighbours (spec/bitsota.md 3 and 9).
func TestBitSotaVectors(t *testing.T) {
	const (
		sig1 = "a674eb4c7cf4978e697cc65597e60a137fd384b47ef32aca00995ac9eee65a653b4600b4e92fe1f09c7099bc6c2b2916b9d5d8bad95aeb484bafda66c4a64689"
		sig2 = "66fd5d1d2a416de4719055cb20cf10b81a36f829e47cbae4e915cb6467dacf5eb10f0e2a1e009199166afd339de340bba38259345df10dc7bfc2f0b719145f81"
		sig3 = "52ef3b99830e511398df0c6a08ded13ed1a2ec0f94c16d1f369f17d45582327e8b09e4036e7c0917b41077ce341fa6f240d232c3c022ff5e99fa22eca434db88"
		sig4 = "c22fbcfd3f02a2264011e469f20585c3f95167ce815ad11fd5ea3908a60ad94b36ee5cff4b80609f6b6196fb088e73cbc3c79dbe3dbc580bf2ef4b75c778bd84"
		one  = "/api/v1/tasks/11111111-1111-4111-8111-111111111111/claim"
	)
	for name, c := range map[string]struct {
		method, target, body, sig string
		want                      string
	}{
		"1":                {"POST", one, `{"claim_description":"manual miner run"}`, sig1, "ok"},
		"1 with blanks":    {"POST", one, "{ \"claim_description\" :\t\"manual miner run\"}\n", sig1, "ok"},
		"1 with 0x":        {"POST", one, `{"claim_description":"manual miner run"}`, "0x" + sig1, "ok"},
		"1 in upper case":  {"POST", one, `{"claim_description":"manual miner run"}`, strings.ToUpper(sig1), "ok"},
		"1 with a type":    {"POST", one, `{"claim_description":"manual miner run"}`, "01" + sig1, "ok"},
		"1 other type":     {"POST", one, `{"claim_description":"manual miner run"}`, "00" + sig1, "refused"},
		"1 other method":   {"PUT", one, `{"claim_description":"manual miner run"}`, sig1, "refused"},
		"1 other path":     {"POST", one + "s", `{"claim_description":"manual miner run"}`, sig1, "refused"},
		"2":                {"POST", "/api/v1/submissions", wireW, sig2, "ok"},
		"2 flipped":        {"POST", "/api/v1/submissions", strings.Replace(wireW, "diff", "dife", 1), sig2, "refused"},
		"2 other number":   {"POST", "/api/v1/submissions", strings.Replace(wireW, "1e-07", "2e-07", 1), sig2, "refused"},
		"2 other spelling": {"POST", "/api/v1/submissions", strings.Replace(wireW, "1e-07", "1e-7", 1), sig2, "ok"}, // Python reads the same number
		"3":                {"GET", "/api/v1/submissions?task_id=t1&status=pending_verification", "", sig3, "ok"},
		"3 other order":    {"GET", "/api/v1/submissions?status=pending_verification&task_id=t1", "", sig3, "refused"},
		"4":                {"POST", "/api/v1/claims/c1/cancel", "", sig4, "ok"},
		"4 with a body":    {"POST", "/api/v1/claims/c1/cancel", "{}", sig4, "refused"},
	} {
		alice := dialecttest.Key(t, "//Alice")
		r := dialecttest.Request(c.method, c.target, c.body, dialect.HeaderHotkey, alice.SS58(), dialect.HeaderTimestamp, "1760000000", dialect.HeaderSignature, c.sig)
		got := dialecttest.Outcome(dialecttest.Verifier(t, BitSota{}).Verify(context.Background(), r, dialect.Need{}))
		if c.want == "ok" && got != "ok" || c.want != "ok" && got != `Unauthorized {"detail":"invalid signature"}` {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func bitsotaRequest(t testing.TB, k *auth.Key, method, timestamp, body, hash string, changes ...string) *dialect.Request {
	r := dialecttest.Request(method, "/api/v1/x?b=2&a=1", body, dialect.HeaderHotkey, k.SS58(), dialect.HeaderTimestamp, timestamp,
		dialect.HeaderSignature, dialecttest.Sign(t, k, Message(method, "/api/v1/x", "b=2&a=1", timestamp, hash)))
	for i := 0; i < len(changes); i += 2 {
		r.Header.Set(changes[i], changes[i+1])
	}
	return r
}

func TestBitSota(t *testing.T) {
	alice, bob := dialecttest.Key(t, "//Alice"), dialecttest.Key(t, "//Bob")
	const body = `{"b": 1E5, "a": 0.10}`
	for name, c := range map[string]struct {
		r    *dialect.Request
		need dialect.Need
		want string
	}{
		"literal":       {bitsotaRequest(t, alice, "POST", dialecttest.Stamp(0), body, signing.BodyHash([]byte(`{"a":0.10,"b":1E5}`))), dialect.Need{}, "ok"},
		"python":        {bitsotaRequest(t, alice, "POST", dialecttest.Stamp(0), body, signing.BodyHash([]byte(`{"a":0.1,"b":100000.0}`))), dialect.Need{}, "ok"},
		"raw":           {bitsotaRequest(t, alice, "POST", dialecttest.Stamp(0), body, signing.BodyHash([]byte(body))), dialect.Need{}, "ok"},
		"raw, no JSON":  {bitsotaRequest(t, alice, "POST", dialecttest.Stamp(0), "\xff", signing.BodyHash([]byte("\xff"))), dialect.Need{}, "ok"},
		"no body hash":  {bitsotaRequest(t, alice, "POST", dialecttest.Stamp(0), body, signing.EmptyBody), dialect.Need{}, `Unauthorized {"detail":"invalid signature"}`},
		"300 s":         {bitsotaRequest(t, alice, "GET", dialecttest.Stamp(-300*time.Second), "", signing.EmptyBody), dialect.Need{}, "ok"},
		"301 s":         {bitsotaRequest(t, alice, "GET", dialecttest.Stamp(-301*time.Second), "", signing.EmptyBody), dialect.Need{}, `Unauthorized {"detail":"timestamp is 301 s from the server's clock: at most 300 s"}`},
		"301 s ahead":   {bitsotaRequest(t, alice, "GET", dialecttest.Stamp(301*time.Second), "", signing.EmptyBody), dialect.Need{}, `Unauthorized {"detail":"timestamp is -301 s from the server's clock: at most 300 s"}`},
		"no headers":    {dialecttest.Request("GET", "/", ""), dialect.Need{}, `Unauthorized {"detail":"missing auth headers"}`},
		"no time":       {bitsotaRequest(t, alice, "GET", "1.5", "", signing.EmptyBody), dialect.Need{}, `Unauthorized {"detail":"invalid timestamp: want Unix seconds"}`},
		"hotkey":        {bitsotaRequest(t, alice, "GET", dialecttest.Stamp(0), "", signing.EmptyBody, dialect.HeaderHotkey, "x"), dialect.Need{}, `Unauthorized {"detail":"invalid hotkey"}`},
		"other hotkey":  {bitsotaRequest(t, alice, "GET", dialecttest.Stamp(0), "", signing.EmptyBody, dialect.HeaderHotkey, bob.SS58()), dialect.Need{}, `Unauthorized {"detail":"invalid signature"}`},
		"short":         {bitsotaRequest(t, alice, "GET", dialecttest.Stamp(0), "", signing.EmptyBody, dialect.HeaderSignature, "00"), dialect.Need{}, `Unauthorized {"detail":"invalid signature"}`},
		"no validator":  {bitsotaRequest(t, bob, "GET", dialecttest.Stamp(0), "", signing.EmptyBody), dialect.Need{Validator: true}, `Forbidden {"detail":"Hotkey is not a validator"}`},
		"not there":     {bitsotaRequest(t, dialecttest.Key(t, "//Nobody"), "GET", dialecttest.Stamp(0), "", signing.EmptyBody), dialect.Need{Registered: true}, `Forbidden {"detail":"Hotkey is not registered"}`},
		"banned":        {bitsotaRequest(t, dialecttest.Key(t, "//Eve"), "GET", dialecttest.Stamp(0), "", signing.EmptyBody), dialect.Need{Registered: true}, `Forbidden {"detail":"Hotkey is banned"}`},
		"wrapped empty": {bitsotaRequest(t, alice, "GET", dialecttest.Stamp(0), "", signing.EmptyBody, dialect.HeaderSignature, dialecttest.Sign(t, alice, []byte("<Bytes>"+string(Message("GET", "/api/v1/x", "b=2&a=1", dialecttest.Stamp(0), signing.EmptyBody))+"</Bytes>"))), dialect.Need{}, "ok"},
	} {
		if got := dialecttest.Outcome(dialecttest.Verifier(t, BitSota{}).Verify(context.Background(), c.r, c.need)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// Reads may be repeated, changes not.
	v := dialecttest.Verifier(t, BitSota{})
	for method, second := range map[string]string{"GET": "ok", "POST": `Unauthorized {"detail":"request was used before: sign it again"}`} {
		r := bitsotaRequest(t, alice, method, dialecttest.Stamp(0), "", signing.EmptyBody)
		for i, want := range []string{"ok", second} {
			if got := dialecttest.Outcome(v.Verify(context.Background(), r, dialect.Need{})); got != want {
				t.Errorf("%s %d: %s", method, i+1, got)
			}
		}
	}
}

func TestBitSotaSiblings(t *testing.T) {
	alice := dialecttest.Key(t, "//Alice")
	for form, msg := range map[string][]byte{Relay: []byte(dialecttest.Stamp(0)), Pool: []byte("auth:" + dialecttest.Stamp(0))} {
		for strict, second := range map[bool]string{false: "ok", true: `Unauthorized {"detail":"request was used before: sign it again"}`} {
			v := dialecttest.Verifier(t)
			v.Strict = strict
			r := dialecttest.Request("GET", "/x", "", "X-Key", alice.SS58(), dialect.HeaderTimestamp, dialecttest.Stamp(0), dialect.HeaderSignature, dialecttest.Sign(t, alice, msg))
			for _, want := range []string{"ok", second} {
				id, refusal := BitSota{}.CheckSibling(context.Background(), v, r, dialect.Need{}, form)
				if got := dialecttest.Outcome(id, refusal); got != want || id.Bound {
					t.Errorf("%s, strict %t: %s", form, strict, got)
				}
			}
		}
	}
	v, bob := dialecttest.Verifier(t), dialecttest.Key(t, "//Bob").SS58()
	r := dialecttest.Request("PUT", "/x", "")
	sig := dialecttest.Sign(t, alice, RecipientMessage(dialecttest.Stamp(0), bob))
	for coldkey, want := range map[string]string{bob: "ok", alice.SS58(): `Unauthorized {"detail":"invalid signature"}`, "x": `Bad Request {"detail":"invalid recipient coldkey"}`} {
		if got := dialecttest.Outcome(BitSota{}.CheckRecipient(context.Background(), v, r, dialect.Need{}, alice.SS58(), dialecttest.Stamp(0), sig, coldkey)); got != want {
			t.Errorf("%s: %s", coldkey, got)
		}
	}
	if got := dialecttest.Outcome(BitSota{}.CheckSibling(context.Background(), v, r, dialect.Need{}, Pool)); got != `Unauthorized {"detail":"missing auth headers"}` {
		t.Error(got)
	}
}

func TestBitSotaTakesOnce(t *testing.T) {
	r := bitsotaRequest(t, dialecttest.Key(t, "//Alice"), "POST", dialecttest.Stamp(0), "{}", signing.BodyHash([]byte("{}")))
	dialecttest.TakesOnce(t, BitSota{}, false, r)
}

func TestMessage(t *testing.T) {
	if got, want := string(Message("post", "/p", "a=b", "17", signing.EmptyBody)), "BT-AUTH-V1\nPOST\n/p\na=b\n17\n"+signing.EmptyBody; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCalc(t *testing.T) {
	hexOf := func(s string) string { return `{"hex":"` + hex.EncodeToString([]byte(s)) + `"}` }
	for _, c := range []struct {
		rule, in, out string
		bad           int
	}{
		{"bitsota.canonical", `{"json":"{\"b\": 1.0, \"a\": \"é<\"}"}`, `{"canonical":"{\"a\":\"\\u00e9<\",\"b\":1.0}","sha256":"` +
			signing.BodyHash([]byte(`{"a":"\u00e9<","b":1.0}`)) + `"}`, 0},
		{"bitsota.canonical", `{"json":"{"}`, `error`, 1},
		{
			"bitsota.signing_bytes", `{"method":"post","path":"/p","query":"","timestamp":"1760000000","body":"{\"claim_description\": \"manual miner run\"}"}`,
			hexOf("BT-AUTH-V1\nPOST\n/p\n\n1760000000\nc1be902f35c60f63f4624eeb84549ac540c54eec7a0fe818943f81145cec43ad"), 0,
		},
		{
			"bitsota.signing_bytes", `{"method":"GET","path":"/p","query":"a=b+c","timestamp":1760000000,"body":null}`,
			hexOf("BT-AUTH-V1\nGET\n/p\na=b+c\n1760000000\n" + signing.EmptyBody), 0,
		},
		{"bitsota.signing_bytes", `{"method":"GET","path":"/p","query":"","timestamp":"1.5","body":null}`, `timestamp`, 1},
		{"bitsota.signing_bytes", `{"method":"GET","path":"/p","query":"","timestamp":1,"body":"x"}`, `error`, 1},
	} {
		var out bytes.Buffer
		bad, err := calc.New(Rules()...).Run(c.rule, strings.NewReader(c.in), &out)
		if err != nil || bad != c.bad || !strings.Contains(out.String(), c.out) {
			t.Errorf("%s %s: bad %d, %v, %s", c.rule, c.in, bad, err, out.String())
		}
	}
}

func FuzzVerify(f *testing.F) {
	alice := dialecttest.Key(f, "//Alice").SS58()
	f.Add("POST", "/x", "a=1", "X-Hotkey: "+alice+"\nX-Timestamp: 1760000000\nX-Signature: 00", "{}")
	f.Add("GET", "/x", "", "X-Hotkey: "+alice+"\nX-Timestamp: 1760000000\nX-Signature: "+strings.Repeat("00", 65), `{"a":1e400}`)
	v := dialecttest.Verifier(f, BitSota{})
	f.Fuzz(func(t *testing.T, method, path, query, headers, body string) {
		dialecttest.Fuzzed(t, v, method, path, query, headers, body)
	})
}
