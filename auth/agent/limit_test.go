package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
)

// moving is the payload of a call that moves rao.
func moving(pallet, call byte, rao uint64) []byte {
	x := amounts[[2]byte{pallet, call}]
	args := make([]byte, x.offset)
	if x.compact {
		args = append(args, 0x13) // eight bytes follow
	}
	args = binary.LittleEndian.AppendUint64(args, rao)
	tail := payload(0, 0, 0, 5, true)[2:]
	return append(append([]byte{pallet, call}, args...), tail...)
}

// A call moves at most what its limit says, and all of a key at most so much a day.
func TestLimits(t *testing.T) {
	path, alice, bob := socket(t), key(t, "//Alice"), key(t, "//Bob")
	p, err := ParsePolicy([]string{"5.3=2.5", "7.2", "7.3=1", "7.0"}, []string{strings.Repeat("05", 32)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.PerDay("6"); err != nil || !p.Calls() {
		t.Fatal(err, p.Calls())
	}
	now := time.Unix(1_800_000_000, 0)
	defer start(t, path, func(s *Server) { s.only, s.now = p, func() time.Time { return now } }, alice, bob)()
	c, err := Dial(path, alice.SS58(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	small := append([]byte{5, 3}, make([]byte, 33)...)
	small = append(append(small, 4), payload(0, 0, 0, 5, true)[2:]...) // 1 rao
	indexed := moving(5, 3, raoPerTAO)
	indexed[2] = 1 // an account by its index has another length
	for i, x := range []struct {
		payload []byte
		want    string // part of the refusal; "" = signed
	}{
		{moving(5, 3, 2_500_000_000), ""},
		{moving(5, 3, 2_500_000_001), "at most 2.5"},
		{moving(7, 2, 3*raoPerTAO), ""},
		{moving(7, 2, raoPerTAO), "5.5 were signed for within a day: at most 6"},
		{moving(7, 3, raoPerTAO), ""},
		{moving(7, 3, raoPerTAO+1), "at most 1"},
		{small, ""},
		{payload(7, 0, 20, 5, true), ""},
		{indexed, "cannot be read"},
		{moving(5, 0, 1), "not allowed"},
		{moving(5, 3, 1<<63), "at most 2.5"},
	} {
		_, err := c.SignExtrinsic(x.payload)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%d: %v, want %q", i, err, x.want)
		}
	}
	// Another key has a day of its own, and tomorrow is another day.
	other, err := Dial(path, bob.SS58(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.SignExtrinsic(moving(7, 2, 6*raoPerTAO)); err != nil {
		t.Error(err)
	}
	now = now.Add(24 * time.Hour)
	if _, err := c.SignExtrinsic(moving(7, 2, 6*raoPerTAO)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"5.3=", "5.3=x", "5.3=1.2345678901", "7.0=1", "5.3=-1"} {
		if _, err := ParsePolicy([]string{bad}, nil); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	if p.PerDay("0") == nil {
		t.Error("a day of nothing was read")
	}
}

// The amount that is read is the one that the chain reads.
func FuzzAmount(f *testing.F) {
	f.Add(moving(5, 3, 1<<40))
	f.Add([]byte{5, 3, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2 {
			return
		}
		for _, x := range amounts {
			if rao, ok := x.read(b); ok && !x.compact && !bytes.Equal(binary.LittleEndian.AppendUint64(nil, rao), b[2+x.offset:][:8]) {
				t.Errorf("%d of %x", rao, b)
			}
		}
	})
}

// TestMain lets this test's binary be a signing program: it signs, or does what the
// variable says.
func TestMain(m *testing.M) {
	how := os.Getenv("AGON_TEST_PROGRAM")
	if how == "" {
		os.Exit(m.Run())
	}
	line := make([]byte, maxLine)
	n, _ := os.Stdin.Read(line)
	k, err := auth.KeyFromURI("//Alice")
	if err != nil {
		panic(err)
	}
	s, err := New(Config{Keys: []auth.Signer{k}})
	if err != nil {
		panic(err)
	}
	switch how {
	case "sign":
		a := s.answer(line[:n], &asker{})
		fmt.Printf("{\"signature\":%q}\n", a.Signature)
	case "wrong":
		fmt.Printf("{\"signature\":%q}\n", strings.Repeat("ab", 64))
	case "refuse":
		fmt.Println(`{"error":"the button was not pressed","code":"refused"}`)
	case "long":
		fmt.Println(strings.Repeat("x", 2*maxLine))
	case "end":
		os.Exit(3)
	}
	os.Exit(0)
}

// A program signs for an address; what it answers is checked.
func TestProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	alice := key(t, "//Alice")
	for how, want := range map[string]string{
		"sign": "", "wrong": auth.ErrBadSignature.Error(), "refuse": "the button was not pressed", "long": "over", "end": "exit status 3", "nothing": "EOF",
	} {
		t.Setenv("AGON_TEST_PROGRAM", how)
		p, err := OpenProgram(self+" -x", alice.SS58(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, sign := range []func([]byte) ([]byte, error){p.Sign, p.SignExtrinsic} {
			sig, err := sign(payload(7, 0, 2000, 5, true))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && len(sig) != 64 {
				t.Errorf("%s: %x, %v, want %q", how, sig, err, want)
			}
		}
	}
	if p, err := OpenProgram(filepath.Join(t.TempDir(), "none"), alice.SS58(), nil); err != nil {
		t.Error(err)
	} else if _, err := p.Sign([]byte("x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
	if _, err := OpenProgram(" ", alice.SS58(), nil); err == nil {
		t.Error("an empty command was taken")
	}
}
