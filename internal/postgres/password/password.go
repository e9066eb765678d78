// Package password gets the password of each connection to Postgres from a command or a file, for servers whose
// passwords are tokens that end after minutes.
//
// A connection string carries where its password comes from, as a parameter that only Parse understands. So every part
// of the program that takes a connection string takes such a source with it, and a part that did not know of Parse
// would be refused by the server instead of connecting without it.
package password

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
)

// parameter is the name under which a connection string carries a source.
const parameter = "cdc_outbox_password_source"

// Source is where passwords come from. With the zero value the connection string has the password.
type Source struct {
	Command []string      `json:"command,omitempty"` // program and arguments; no shell
	File    string        `json:"file,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"` // of the command
}

// IsSet reports whether there is a source.
func (s Source) IsSet() bool { return len(s.Command) > 0 || s.File != "" }

// Reader returns a function that reads a connection string and adds the source to it.
func (s Source) Reader(read func() (string, error)) func() (string, error) {
	if !s.IsSet() {
		return read
	}
	return func() (string, error) {
		dsn, err := read()
		if err != nil {
			return "", err
		}
		return s.into(dsn)
	}
}

func (s Source) into(dsn string) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return login.WithParameter(dsn, parameter, base64.RawURLEncoding.EncodeToString(text)), nil
}

// Parse is pgx.ParseConfig for a connection string that may carry a source. The source is asked by each attempt to
// connect, when the server has taken the connection, and by nothing else. The login is bounded.
func Parse(dsn string) (*pgx.ConnConfig, error) {
	pc, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if err := login.Libpq(&pc.Config); err != nil {
		return nil, err
	}
	login.Guard(&pc.Config)
	given := pc.Password // an attempt to connect may prepare it, and the next one begins with it again
	var s Source
	text, elsewhere := pc.RuntimeParams[parameter]
	if elsewhere {
		delete(pc.RuntimeParams, parameter)
		decoded, err := base64.RawURLEncoding.DecodeString(text)
		if err == nil {
			err = json.Unmarshal(decoded, &s)
		}
		if err != nil {
			return nil, errors.New("the source of the password cannot be read")
		}
	}
	pc.AfterNetConnect = func(ctx context.Context, to *pgconn.Config, conn net.Conn) (_ net.Conn, err error) {
		to.Password = given
		if elsewhere {
			to.Password, err = s.password(ctx, to)
		}
		if err == nil {
			login.Prepare(to, conn)
		}
		return conn, err
	}
	return pc, nil
}

// Only reports whether the connection string is nothing but a source, so that the PG* variables say where the
// server is.
func Only(dsn string) bool {
	return strings.HasPrefix(dsn, parameter+"=") && !strings.Contains(dsn, " ")
}
