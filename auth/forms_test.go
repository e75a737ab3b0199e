package auth

import (
	"strings"
	"testing"
)

// Numbers and signatures of a signed request have one form each.
func TestSignedForms(t *testing.T) {
	for _, s := range []string{"17x", "17:", "1/7", "+17", "-17", " 17"} {
		if _, err := parseTimestamp(s); err == nil || err.Error() != "not a decimal number" {
			t.Errorf("timestamp %q: %v", s, err)
		}
	}
	if n, err := parseTimestamp("1700000000"); err != nil || n != 1_700_000_000 {
		t.Errorf("timestamp: %d, %v", n, err)
	}
	digits := strings.Repeat("a", 2*SignatureSize)
	for s, ok := range map[string]bool{digits: true, "0x" + digits: true, digits + "aa": false, digits[2:]: false, "0x" + digits[2:]: false, "0x0x" + digits[2:]: false, "g" + digits[1:]: false} {
		if b, err := ParseSignature(s); (err == nil) != ok || ok && len(b) != SignatureSize {
			t.Errorf("signature %q of %d characters: %d bytes, %v", s[:4], len(s), len(b), err)
		}
	}
}
