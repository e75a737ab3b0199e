package provider

import "testing"

func TestEchoes(t *testing.T) {
	const key = "sk-test-0123456789abcdef"
	for reply, want := range map[string]bool{
		"":                                 false,
		`{"a":"b"}`:                        false,
		`{"a":"` + key + `"}`:              true,
		`{"a":"` + key[:12] + `"}`:         true, // cut
		`{"a":"` + key[12:] + `"}`:         true,
		`{"a":"` + key[:9] + `…"}`:         false,
		`{"\u0073` + key[1:] + `":1}`:      true, // a name, escaped
		`[["\u0073` + key[1:] + `"]]`:      true,
		`["\u0073k-test-0123"]`:            true,
		`["\u0073k` + key[2:9] + `\n tail`: false, // no JSON
	} {
		if got := Echoes([]byte(reply), key); got != want {
			t.Errorf("%s: %v, want %v", reply, got, want)
		}
	}
	if Echoes([]byte("x"), "") || !Echoes([]byte("a short one"), "short") || Echoes([]byte("sho"), "short") {
		t.Error("no key, or a short one")
	}
}

// Placeholders of a key stand in honest replies; short secrets are kept.
func TestSecret(t *testing.T) {
	for key, want := range map[string]string{"": "", "x": "", "none": "", "EMPTY": "", "Ollama": "", "s3cr": "s3cr", "nonesuch": "nonesuch", "sk-test-0123": "sk-test-0123"} {
		if got := Secret(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
	if Echoes([]byte(`{"a":"there is none"}`), "none") {
		t.Error("a placeholder is taken for a key")
	}
}
