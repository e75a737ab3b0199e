// What only the tests of this package need.

package corpus

// Find returns the first hit of a row's query, user messages or ground-truth ids.
func (p *Poison) Find(texts, ids []string) (Hit, bool) {
	if h, ok := p.whole(texts, ids); ok {
		return h, true
	}
	if hits := p.grammed(texts); len(hits) > 0 {
		return hits[0].Hit, true
	}
	return Hit{}, false
}
