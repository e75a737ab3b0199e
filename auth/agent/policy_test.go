package agent

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
)

// payload is an extrinsic's: a call, its extra parts, and what is signed besides.
func payload(pallet, call byte, args int, genesis byte, checked bool) []byte {
	b := append([]byte{pallet, call}, bytes.Repeat([]byte{1}, args)...)
	b = append(b, 0, 4, 0)
	if checked {
		b = append(b, 0)
	}
	b = append(b, 0xa8, 1, 0, 0, 1, 0, 0, 0)
	b = append(append(b, bytes.Repeat([]byte{genesis}, 32)...), bytes.Repeat([]byte{9}, 32)...)
	if checked {
		b = append(b, 0)
	}
	return b
}

// An agent with a policy signs the listed calls on the listed chains and the
// listed forms, and nothing that only looks like them.
func TestPolicy(t *testing.T) {
	path, alice := socket(t), key(t, "//Alice")
	p, err := ParsePolicy([]string{"7.0", "agon-v1"}, []string{"0x" + strings.Repeat("05", 32)})
	if err != nil {
		t.Fatal(err)
	}
	defer start(t, path, func(s *Server) { s.only = p }, alice)()
	c, err := Dial(path, alice.SS58(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, x := range map[string]struct {
		sign func([]byte) ([]byte, error)
		msg  []byte
		ok   bool
	}{
		"a listed call":                        {c.SignExtrinsic, payload(7, 0, 20, 5, true), true},
		"a long one":                           {c.SignExtrinsic, payload(7, 0, 2000, 5, true), true},
		"without the check of metadata":        {c.SignExtrinsic, payload(7, 0, 20, 5, false), true},
		"another call":                         {c.SignExtrinsic, payload(5, 3, 20, 5, true), false},
		"a long other call":                    {c.SignExtrinsic, payload(5, 3, 2000, 5, true), false},
		"a batch":                              {c.SignExtrinsic, payload(11, 0, 20, 5, true), false},
		"another chain":                        {c.SignExtrinsic, payload(7, 0, 20, 6, true), false},
		"the genesis among the arguments":      {c.SignExtrinsic, append(payload(7, 0, 20, 5, true), 1, 2, 3), false},
		"too short":                            {c.SignExtrinsic, []byte{7, 0}, false},
		"the bytes of a listed call, unmarked": {c.Sign, payload(7, 0, 20, 5, true), false},
		"the hash of a long call":              {c.Sign, signed(payload(7, 0, 2000, 5, true)), false},
		"a request":                            {c.Sign, []byte("agon-v1\nGET\n/v1/arenas\nab\nn\n1\nhere"), true},
		"another dialect":                      {c.Sign, []byte(alice.SS58() + ":1700000000:n"), false},
		"a request with a zero":                {c.Sign, []byte("agon-v1\nGET\x00"), false},
		"nothing":                              {c.Sign, nil, false},
	} {
		sig, err := x.sign(x.msg)
		var refused *Error
		switch {
		case x.ok && (err != nil || len(sig) != 64):
			t.Errorf("%s: %v", name, err)
		case !x.ok && (!errors.As(err, &refused) || refused.Code != CodePolicy):
			t.Errorf("%s: signed %x: %v", name, sig, err)
		}
	}
	for _, bad := range [][]string{{"7"}, {"7.256"}, {"set_weights"}, {""}} {
		if _, err := ParsePolicy(bad, nil); err == nil {
			t.Errorf("%v was read", bad)
		}
	}
	if _, err := ParsePolicy([]string{"7.0"}, []string{"0x05"}); err == nil {
		t.Error("a short genesis was read")
	}
	if _, err := ParsePolicy([]string{"text"}, []string{strings.Repeat("05", 32)}); err == nil {
		t.Error("a genesis without calls was read")
	}
}

// Without a policy an extrinsic is signed as before, over the same bytes; text
// allows every dialect, and no extrinsic.
func TestOpenPolicy(t *testing.T) {
	path, alice := socket(t), key(t, "//Alice")
	defer start(t, path, nil, alice)()
	c, err := Dial(path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pub, err := auth.ParseSS58(alice.SS58())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{20, 2000} {
		full := payload(5, 3, n, 5, true)
		sig, err := c.SignExtrinsic(full)
		if err != nil || auth.VerifyPublic(auth.Sr25519, pub, signed(full), sig) != nil {
			t.Errorf("%d bytes: %v", len(full), err)
		}
	}
	p, err := ParsePolicy([]string{"text"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for msg, ok := range map[string]bool{"5Grw:1:n": true, `{"a":"ü"}`: true, "a\tb\n": true, "a\rb": false, "\xff": false, string(payload(7, 0, 9, 5, true)): false} {
		if why := p.text([]byte(msg)); (why == "") != ok {
			t.Errorf("%q: %q", msg, why)
		}
	}
	if p.call(payload(7, 0, 9, 5, true)) == "" {
		t.Error("a call was allowed by text")
	}
}
