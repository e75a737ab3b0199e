package services

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/textproto"
	"strings"
	"time"

	"github.com/agon-arena/agon/internal/lazyregexp"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// Limits of SMTP.
const (
	maxTalks      = 32
	maxRecipients = 100
	maxLine       = 4096
	maxParts      = 100
	talkIdle      = time.Minute
)

// ServeSMTP takes mails on ln until ctx ends. Mails are kept, never delivered: a
// row of sent_emails with via "smtp" each. It returns when every talk has ended.
func (s *Server) ServeSMTP(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	slots := make(chan struct{}, maxTalks)
	defer func() {
		for range maxTalks {
			slots <- struct{}{} // all talks have given theirs back
		}
	}()
	for {
		c, err := ln.Accept()
		if err != nil {
			if cancel(); errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("accept mail: %w", err)
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			_ = c.Close()
			return nil
		}
		go func() {
			defer func() { <-slots }()
			s.Talk(ctx, c)
		}()
	}
}

var (
	mailFrom = lazyregexp.New(`(?i)^MAIL FROM:\s*<([^<>]{0,320})>`)
	mailTo   = lazyregexp.New(`(?i)^RCPT TO:\s*<([^<>]{1,320})>`)
)

// Talk speaks SMTP with one client, closes the connection and returns.
func (s *Server) Talk(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer func() { _ = c.Close() }()
	in := bufio.NewReaderSize(c, maxLine)
	say := func(line string) bool {
		_ = c.SetWriteDeadline(time.Now().Add(talkIdle)) //nolint:forbidigo // a deadline of a socket
		_, err := io.WriteString(c, line+"\r\n")
		return err == nil
	}
	if !say("220 office SMTP") {
		return
	}
	from, greeted := "", false
	var to []string
	begun := false
	for {
		_ = c.SetReadDeadline(time.Now().Add(talkIdle)) //nolint:forbidigo // a deadline of a socket
		raw, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			say("500 line too long")
			return
		}
		if err != nil {
			return
		}
		line := strings.TrimRight(string(raw), "\r\n")
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		reply := ""
		switch verb {
		case "EHLO":
			greeted, reply = true, fmt.Sprintf("250-office\r\n250-SIZE %d\r\n250-8BITMIME\r\n250 SMTPUTF8", maxBody)
		case "HELO":
			greeted, reply = true, "250 office"
		case "MAIL":
			m := mailFrom().FindStringSubmatch(line)
			switch {
			case !greeted:
				reply = "503 say EHLO first"
			case begun:
				reply = "503 a mail has begun"
			case m == nil:
				reply = "501 want MAIL FROM:<address>"
			default:
				from, to, begun, reply = m[1], nil, true, "250 OK"
			}
		case "RCPT":
			m := mailTo().FindStringSubmatch(line)
			switch {
			case !begun:
				reply = "503 say MAIL FROM first"
			case m == nil:
				reply = "501 want RCPT TO:<address>"
			case len(to) >= maxRecipients:
				reply = fmt.Sprintf("452 at most %d recipients", maxRecipients)
			default:
				to, reply = append(to, m[1]), "250 OK"
			}
		case "DATA":
			if !begun || len(to) == 0 {
				reply = "503 say MAIL FROM and RCPT TO first"
				break
			}
			if !say("354 end with <CR><LF>.<CR><LF>") {
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(talkIdle)) //nolint:forbidigo // a deadline of a socket
			b, fits, err := readData(in)
			if err != nil {
				return
			}
			reply = "552 the mail is too large"
			if fits {
				reply = s.take(from, to, b)
			}
			begun = false
		case "RSET":
			begun, reply = false, "250 OK"
		case "NOOP":
			reply = "250 OK"
		case "VRFY":
			reply = "252 it is taken without a look"
		case "QUIT":
			say("221 bye")
			return
		default:
			reply = "502 not known"
		}
		if !say(reply) {
			return
		}
	}
}

// readData reads up to the line with a dot, of which it keeps at most maxBody bytes.
func readData(in *bufio.Reader) (b []byte, fits bool, err error) {
	fits = true
	for begins := true; ; {
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !long {
			return nil, false, err
		}
		if begins && (string(line) == ".\r\n" || string(line) == ".\n") {
			return b, fits, nil
		}
		if begins && line[0] == '.' {
			line = line[1:]
		}
		begins = !long
		if fits = fits && len(b)+len(line) <= maxBody; fits {
			b = append(b, line...)
		}
	}
}

// take keeps one mail and returns SMTP's reply.
func (s *Server) take(from string, to []string, raw []byte) string {
	subject, body, sender := readMail(raw)
	if from == "" {
		from = sender
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := packfile.Obj("id", s.id(), "from", valid(from), "to", packfile.Of(to), "subject", valid(subject), "body", valid(body), "timestamp", s.stamp(), "via", "smtp")
	if !s.write("sent_emails", m.Get("id").Str, m) || !s.log("email", "smtp_send", m) {
		return "452 the office holds no more"
	}
	return "250 Message accepted"
}

func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// readMail takes subject, text and sender out of a mail. What cannot be read as
// one is all text.
func readMail(raw []byte) (subject, body, sender string) {
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return "", string(raw), ""
	}
	subject = m.Header.Get("Subject")
	if d, err := new(mime.WordDecoder).DecodeHeader(subject); err == nil {
		subject = d
	}
	parts := maxParts
	text, _ := textOf(textproto.MIMEHeader(m.Header), m.Body, &parts)
	return subject, text, m.Header.Get("From")
}

// textOf is the text of a mail: of one with parts the first that is plain text
// and not empty.
func textOf(h textproto.MIMEHeader, r io.Reader, parts *int) (text string, plain bool) {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		kind = "text/plain"
	}
	if strings.HasPrefix(kind, "multipart/") {
		for m := multipart.NewReader(r, params["boundary"]); *parts > 0; {
			*parts--
			p, err := m.NextRawPart()
			if err != nil {
				break
			}
			if t, ok := textOf(p.Header, p, parts); ok && t != "" {
				return t, true
			}
		}
		return "", true
	}
	switch strings.ToLower(strings.TrimSpace(h.Get("Content-Transfer-Encoding"))) {
	case "quoted-printable":
		r = quotedprintable.NewReader(r)
	case "base64":
		r = base64.NewDecoder(base64.StdEncoding, r)
	}
	b, _ := io.ReadAll(r) // as far as it can be read
	return string(b), kind == "text/plain"
}
