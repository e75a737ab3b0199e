// Package seeds derives seeds: for runs, and for what kinds draw.
package seeds

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
)

// Derive makes a seed from labelled parts, domain-separated: the same
// parts give the same seed everywhere. The result is in [0, 2^53).
func Derive(domain string, parts ...string) int64 {
	var b strings.Builder
	b.WriteString("agon-seed-v1\n")
	for _, p := range append([]string{domain}, parts...) {
		b.WriteString(strconv.Itoa(len(p)))
		b.WriteByte(':')
		b.WriteString(p)
	}
	h := sha256.Sum256([]byte(b.String()))
	return int64(binary.BigEndian.Uint64(h[:8]) >> 11)
}
