package iostreams

import "testing"

func env(pairs ...string) func(string) string {
	return func(k string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == k {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestColour(t *testing.T) {
	tests := []struct {
		name      string
		env       func(string) string
		flag      string
		tty, pipe bool // coloured on a terminal, in a pipe
	}{
		{"default", env(), "auto", true, false},
		{"NO_COLOR", env("NO_COLOR", "1"), "", false, false},
		{"NO_COLOR beats force", env("NO_COLOR", "1", "CLICOLOR_FORCE", "1"), "", false, false},
		{"empty NO_COLOR is unset", env("NO_COLOR", ""), "", true, false},
		{"CLICOLOR=0", env("CLICOLOR", "0"), "", false, false},
		{"CLICOLOR_FORCE", env("CLICOLOR_FORCE", "1"), "", true, true},
		{"dumb", env("TERM", "dumb"), "", false, false},
		{"flag beats NO_COLOR", env("NO_COLOR", "1"), "always", true, true},
		{"never beats force", env("CLICOLOR_FORCE", "1"), "never", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _, _ := Test("")
			s.colour, s.colourForced = colour(tt.env)
			if err := s.SetColour(tt.flag); err != nil {
				t.Fatal(err)
			}
			if s.OutColour() != tt.pipe {
				t.Errorf("pipe: colour %v", s.OutColour())
			}
			s.ForceTTY(40)
			if s.OutColour() != tt.tty || s.ErrColour() != tt.tty {
				t.Errorf("terminal: colour %v", s.OutColour())
			}
		})
	}
	s, _, _ := Test("")
	if err := s.SetColour("mauve"); err == nil {
		t.Error("--color mauve was taken")
	}
}

func TestForceTTY(t *testing.T) {
	s := System(env("AGON_FORCE_TTY", "33"))
	if !s.OutTTY() || !s.ErrTTY() || !s.InTTY() || s.Width() != 33 {
		t.Errorf("tty %v, width %d", s.OutTTY(), s.Width())
	}
	s.ForceTTY(0)
	if s.Width() != 1 {
		t.Errorf("width %d, want at least 1", s.Width())
	}
}

func TestPaint(t *testing.T) {
	if got := Paint(true, Red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
	if got := Paint(false, Red, "x") + Paint(true, Red, "") + Paint(true, "", "y"); got != "xy" {
		t.Errorf("%q", got)
	}
}
