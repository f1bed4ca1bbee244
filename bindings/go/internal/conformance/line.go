package conformance

import (
	"encoding/hex"
	"strings"
)

// pair is KEY=VALUE, or KEY~VALUE behind a status.
type pair struct {
	key, value string
	contains   bool
	used       bool
}

// line is one line of a scenario, decoded.
type line struct {
	command command
	timed   bool
	raw     string // as it stands, for `timed`
	words   []string
	pairs   []*pair
	options []*pair
	status  string // that the call must fail with; "": it must succeed
	details []*pair
}

// parse is nil for a line that says nothing.
func (r *runner) parse(text string) *line {
	tokens := tokens(text)
	if len(tokens) == 0 {
		return nil
	}
	l := &line{command: r.find(tokens[0])}
	tokens = tokens[1:]
	if l.command.name == "timed" {
		if len(tokens) == 0 {
			r.fail("expected a command to time, found none")
		}
		l.timed, l.raw = true, r.replaced(strings.Join(tokens, " "))
		l.command = r.find(tokens[0])
		tokens = tokens[1:]
	}
	for i := 0; i < len(tokens); i++ {
		if l.status == "" && tokens[i] == "->" {
			if i++; i == len(tokens) {
				r.fail("expected a status behind '->', found none")
			}
			l.status = r.decoded(tokens[i])
			continue
		}
		r.take(l, tokens[i])
	}
	if len(l.words) < l.command.words {
		r.fail("expected %d words, found %d", l.command.words, len(l.words))
	}
	return l
}

// tokens are the words as they stand, up to a comment.
func tokens(text string) []string {
	all := strings.Fields(text)
	for i, token := range all {
		if token[0] == '#' {
			return all[:i]
		}
	}
	return all
}

func (r *runner) find(name string) command {
	found, known := commands[name]
	if !known {
		r.fail("expected a command, found '%s'", name)
	}
	r.command = name
	return found
}

func (r *runner) take(l *line, token string) {
	takes := l.command.takes
	switch {
	case l.status != "":
		l.details = append(l.details, r.parsePair(token, "=~"))
	case len(l.words) < l.command.words || takes&takesMore != 0:
		l.words = append(l.words, r.decoded(token))
	case token[0] == '@':
		if takes&takesOptions == 0 {
			r.fail("expected no options, found '%s'", token)
		}
		l.options = append(l.options, r.parsePair(token[1:], "="))
	default:
		if takes&takesPairs == 0 {
			r.fail("expected no more words, found '%s'", token)
		}
		l.pairs = append(l.pairs, r.parsePair(token, "="))
	}
}

// parsePair divides before anything is replaced.
func (r *runner) parsePair(token, signs string) *pair {
	at := strings.IndexAny(token, signs)
	if at < 0 {
		r.fail("expected KEY=VALUE, found '%s'", token)
	}
	return &pair{key: r.decoded(token[:at]), value: r.decoded(token[at+1:]), contains: token[at] == '~'}
}

// decoded is a word with $NAME replaced, then %XX as the byte; "%" alone is empty.
func (r *runner) decoded(token string) string {
	text := r.replaced(token)
	if text == "%" {
		return ""
	}
	var made strings.Builder
	for {
		before, rest, found := strings.Cut(text, "%")
		made.WriteString(before)
		if !found {
			return made.String()
		}
		if len(rest) < 2 {
			r.fail("expected two hexadecimal digits behind %%, found '%s'", rest)
		}
		octet, err := hex.DecodeString(rest[:2])
		if err != nil {
			r.fail("expected two hexadecimal digits behind %%, found '%s'", rest[:2])
		}
		made.Write(octet)
		text = rest[2:]
	}
}

func (r *runner) replaced(text string) string {
	var made strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		made.WriteString(before)
		if !found {
			return made.String()
		}
		size := 0
		for size < len(rest) && isNameByte(rest[size]) {
			size++
		}
		if size == 0 {
			made.WriteByte('$')
		} else {
			value, known := r.variables[rest[:size]]
			if !known {
				r.fail("expected a value of $%s on the command line, found none", rest[:size])
			}
			made.WriteString(value)
		}
		text = rest[size:]
	}
}

func isNameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
