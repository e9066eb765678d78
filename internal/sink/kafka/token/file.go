package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// File reads the token of each login from a file that another program keeps up to date. It implements wire.Tokens.
type File struct {
	Path string
	Read func() (string, error)
}

// Get implements wire.Tokens.
func (f File) Get(context.Context) (wire.Token, error) {
	text, err := f.Read()
	if err != nil {
		return wire.Token{}, f.failed(err,
			"Make kafka.sasl.oauth.token_file a file that can be read and holds a token.")
	}
	t := wire.Token{Value: text, Expires: expiry(text)}
	for _, r := range text {
		if r <= ' ' || r > '~' {
			return wire.Token{}, f.failed(errors.New("it holds more than a token"),
				"Write the token alone into the file, as one line.")
		}
	}
	if now := time.Now(); !t.Expires.IsZero() && !now.Before(t.Expires) {
		return wire.Token{}, f.failed(fmt.Errorf("the token in it ended at %s", t.Expires.UTC().Format(time.RFC3339)),
			"See whether the program that writes the file runs. The file is read again for each attempt.")
	}
	return t, nil
}

func (f File) failed(err error, remedy string) *wire.TokenError {
	return &wire.TokenError{Kind: sink.NotAuthenticated, Source: "file " + f.Path, Err: err, Remedy: remedy}
}

// Ahead implements wire.Tokens: a file is read at once.
func (f File) Ahead() bool { return true }

// Trouble implements wire.Tokens: a file is looked at when a connection needs it.
func (f File) Trouble() *wire.TokenError { return nil }
