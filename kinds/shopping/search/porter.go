package search

import porter "github.com/blevesearch/go-porterstemmer"

// stem is Porter's stemmer (M. F. Porter, An algorithm for suffix stripping,
// 1980) with the two later departures of its author, bli -> ble and
// logi -> log, of a word in lower case.
func stem(w string) string {
	if s, ok := bare[w]; ok {
		return s
	}
	return string(porter.StemWithoutLowerCasing([]rune(w)))
}

// bare are words that are nothing but a suffix, which the library cuts too short.
var bare = map[string]string{"eed": "eed", "eeds": "eed", "ies": "i", "sses": "ss"}
