package alert

import "fmt"

// Level is how bad something is; a higher one is worse.
type Level uint8

const (
	OK       Level = iota
	Warn           // needs an operator today
	Critical       // needs an operator now: the slot is lost or about to be, or the disk is about to fill
)

// String returns the level's name as it appears in logs and JSON.
func (l Level) String() string {
	switch l {
	case Warn:
		return "warn"
	case Critical:
		return "critical"
	}
	return "ok"
}

// MarshalText writes the name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the name.
func (l *Level) UnmarshalText(text []byte) error {
	for _, known := range []Level{OK, Warn, Critical} {
		if string(text) == known.String() {
			*l = known
			return nil
		}
	}
	return fmt.Errorf("%q is not a level", text)
}
