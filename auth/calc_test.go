package auth

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/calc"
)

func TestCalcRules(t *testing.T) {
	const alice = `{"ss58":"` + aliceSS58 + `","public_hex":"` + alicePub + `"}`
	const sig = "407c1f48f7bea70b6e7ef70f010666fce36100cc89a1f6637c0b8513050f85344f1e1f612251ffba5ec8cd2d272e8ab12c702f4dd55c8990ef2440320f8f5d89"
	for _, c := range []struct {
		rule, in, out string
		bad           int
	}{
		{"chain.address", `{"uri":"//Alice"}`, alice, 0},
		{"chain.address", `{"uri":"` + DevPhrase + `//Alice"}`, alice, 0},
		{"chain.address", `{"mnemonic":"` + leopard + `"}`, `"5HDvhV6WDCjCKyrXqGQSDYqQAzkzabNhctmiDYEqgBC66BsX"`, 0},
		{"chain.address", `{}`, `give either`, 1},
		{"chain.address", `{"uri":"//A","mnemonic":"x"}`, `give either`, 1},
		{"chain.address", `{"mnemonic":"not a mnemonic"}`, `not valid`, 1},
		{"chain.verify", `{"ss58":"` + aliceSS58 + `","message_hex":"68656c6c6f206172656e61","signature_hex":"` + sig + `"}`, `{"ok":true}`, 0},
		{"chain.verify", `{"ss58":"` + aliceSS58 + `","message_hex":"0x68656c6c6f206172656e61","signature_hex":"0x` + strings.ToUpper(sig) + `"}`, `{"ok":true}`, 0},
		{"chain.verify", `{"ss58":"` + aliceSS58 + `","message_hex":"","signature_hex":"` + sig + `"}`, `{"ok":false}`, 0},
		{"chain.verify", `{"ss58":"` + aliceSS58 + `","message_hex":"","signature_hex":"00"}`, `{"ok":false}`, 0},
		{"chain.verify", `{"ss58":"` + aliceSS58 + `","message_hex":"xx","signature_hex":"00"}`, `message_hex`, 1},
		{"chain.verify", `{"ss58":"5Grw","message_hex":"","signature_hex":"00"}`, `address`, 1},
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
		{"caster.signing_bytes", `{"method":"post","path_qs":"/v1/miners/scripts","body":""}`, hexOf("POST\n/v1/miners/scripts\n" + signing.EmptyBody), 0},
	} {
		var out bytes.Buffer
		bad, err := calc.New(Rules()...).Run(c.rule, strings.NewReader(c.in), &out)
		if err != nil || bad != c.bad || !strings.Contains(out.String(), c.out) {
			t.Errorf("%s %s: bad %d, %v, %s", c.rule, c.in, bad, err, out.String())
		}
	}
}

func hexOf(s string) string { return `{"hex":"` + hex.EncodeToString([]byte(s)) + `"}` }
