package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth"
)

// programTimeout is how long a program has to sign: somebody may have to press a button.
const programTimeout = 5 * time.Minute

// Program is a signer outside of agon, such as one that talks to a hardware
// wallet: a command that is run for each signature. It reads one line as the agent
// does ({"op":"extrinsic","ss58":…,"message":…}) and answers with one. It is not
// believed: each signature is checked against the address.
type Program struct {
	argv    []string
	address string
	public  [32]byte
	stderr  io.Writer
}

var _ auth.Signer = (*Program)(nil)

// OpenProgram makes a signer of a command, its words with blanks between them (no
// shell reads them), for an address. stderr is where the program may speak to its user.
func OpenProgram(command, address string, stderr io.Writer) (*Program, error) {
	argv := strings.Fields(command)
	if len(argv) == 0 {
		return nil, errors.New("signing program: no command")
	}
	pub, err := auth.ParseSS58(address)
	if err != nil {
		return nil, fmt.Errorf("signing program: %w", err)
	}
	return &Program{argv, address, pub, stderr}, nil
}

// SS58 returns the address.
func (p *Program) SS58() string { return p.address }

// Sign asks for a signature over msg.
func (p *Program) Sign(msg []byte) ([]byte, error) { return p.ask("sign", msg, msg) }

// SignExtrinsic asks for a signature of an extrinsic, whose payload the program gets whole.
func (p *Program) SignExtrinsic(payload []byte) ([]byte, error) {
	return p.ask("extrinsic", payload, signed(payload))
}

func (p *Program) ask(op string, message, msg []byte) ([]byte, error) {
	if len(message) > MaxMessage {
		return nil, &Error{CodeTooLarge, fmt.Sprintf("message of %d bytes: at most %d", len(message), MaxMessage)}
	}
	line, err := json.Marshal(ask{Op: op, SS58: p.address, Message: message})
	if err != nil {
		return nil, fmt.Errorf("signing program: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), programTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(append(line, '\n')), p.stderr, time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("signing program: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("signing program: %w", err)
	}
	got, rerr := bufio.NewReader(io.LimitReader(out, maxLine)).ReadBytes('\n')
	if len(got) > 0 && errors.Is(rerr, io.EOF) {
		rerr = nil // the last line need not end
	}
	if len(got) >= maxLine {
		rerr = fmt.Errorf("answer over %d bytes", maxLine)
	}
	_, derr := io.Copy(io.Discard, out)
	if err := errors.Join(rerr, derr, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("signing program %s: %w", p.argv[0], err)
	}
	var a answer
	if err := json.Unmarshal(got, &a); err != nil {
		return nil, fmt.Errorf("signing program %s: its answer is not a line of this protocol", p.argv[0])
	}
	if a.Error != nil {
		return nil, a.Error
	}
	return checked(a.Signature, p.public, msg)
}

// checked reads a signature and checks it; the address does not tell the scheme.
func checked(text string, public [32]byte, msg []byte) ([]byte, error) {
	sig, err := auth.ParseSignature(text)
	if err != nil {
		return nil, fmt.Errorf("key agent: %w", err)
	}
	if err := auth.VerifyPublic(auth.Sr25519, public, msg, sig); err != nil && auth.VerifyPublic(auth.Ed25519, public, msg, sig) != nil {
		return nil, fmt.Errorf("key agent: %w", auth.ErrBadSignature)
	}
	return sig, nil
}
