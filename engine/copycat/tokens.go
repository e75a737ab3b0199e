package copycat

// TokenKind is the kind of a token of Python source.
type TokenKind uint8

// Kinds of tokens that Tokens returns. Indentation is left out.
const (
	TokenName TokenKind = iota
	TokenOp
	TokenNumber
	TokenString
	TokenNewline // the end of a logical line
)

// Token is one token of Python source.
type Token struct {
	Kind TokenKind
	Text string // as written; of strings with prefix and quotes
	Line int    // from 1
}

// Tokens reads Python 3.11 source into tokens, without comments and
// indentation. Nothing is run; errors are *SyntaxError.
func Tokens(src string) ([]Token, error) {
	list, err := tokenize(src)
	if err != nil {
		return nil, err
	}
	kinds := map[tokenKind]TokenKind{tName: TokenName, tOp: TokenOp, tNumber: TokenNumber, tString: TokenString, tNewline: TokenNewline}
	out := make([]Token, 0, len(list))
	for _, t := range list {
		if k, ok := kinds[t.kind]; ok {
			out = append(out, Token{k, t.text, t.line})
		}
	}
	return out, nil
}
