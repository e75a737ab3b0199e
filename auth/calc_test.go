package auth

import (
	"bytes"
	"strings"
	"testing"

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
	} {
		var out bytes.Buffer
		bad, err := calc.New(Rules()...).Run(c.rule, strings.NewReader(c.in), &out)
		if err != nil || bad != c.bad || !strings.Contains(out.String(), c.out) {
			t.Errorf("%s %s: bad %d, %v, %s", c.rule, c.in, bad, err, out.String())
		}
	}
}
