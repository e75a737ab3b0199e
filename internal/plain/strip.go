package plain

import "unicode/utf8"

// Strip removes every Unsafe rune and every byte that is not UTF-8 from b, and
// nothing else: unlike Clean it takes no escape sequence whole, so that in a
// page it can never swallow markup between two hostile fields. b itself is
// returned where there is nothing to remove.
func Strip(b []byte) []byte {
	i := unsafeAt(b, 0)
	if i == len(b) {
		return b
	}
	out := make([]byte, 0, len(b))
	from := 0
	for i < len(b) {
		out = append(out, b[from:i]...)
		_, n := utf8.DecodeRune(b[i:])
		from = i + n
		i = unsafeAt(b, from)
	}
	return append(out, b[from:]...)
}

// unsafeAt is the first place from i on that Strip removes, or the length of b.
func unsafeAt(b []byte, i int) int {
	for i < len(b) {
		if c := b[i]; c < utf8.RuneSelf {
			if c < 0x20 && c != '\n' && c != '\t' || c == 0x7f {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if Unsafe(r) || r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return i
}
