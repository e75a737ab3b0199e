package plain

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func TestStrip(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"plain ü 漢 🙂\n\tx":              "plain ü 漢 🙂\n\tx",
		"a\x1b[31mb":                    "a[31mb",
		"\x1b]<p>a</p>\x07":             "]<p>a</p>", // markup stays, whatever stands around it
		"a\u202eb\u2066c\u200fd\r\x00e": "abcde",
		"\u009b1m\xff\xfe x\u2028":      "1m x",
		"\U000e0041\ufeffz":             "z",
	} {
		if got := string(Strip([]byte(in))); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if b := []byte("nothing to do"); &Strip(b)[0] != &b[0] {
		t.Error("clean bytes were copied")
	}
}

func FuzzStrip(f *testing.F) {
	f.Add([]byte("a\x1b[2J\u202e"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := Strip(b)
		if !utf8.Valid(got) || !bytes.Equal(Strip(got), got) {
			t.Errorf("%q becomes %q", b, got)
		}
		for _, r := range string(got) {
			if Unsafe(r) {
				t.Errorf("%q holds %U", got, r)
			}
		}
	})
}
