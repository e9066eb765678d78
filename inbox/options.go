package inbox

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Strategy says how an event is claimed; the package's documentation says when to use which.
type Strategy string

const (
	Insert   Strategy = "insert"   // a concurrent duplicate waits for the first
	Advisory Strategy = "advisory" // a concurrent duplicate gets ErrContended at once
)

// Options of an Inbox.
type Options struct {
	// Consumer names who handles the events: the service, and the part of it where several parts handle the same events. Each name
	// handles each event once. At most 255 bytes; changing it means handling everything again. Required.
	Consumer string
	// Strategy of claiming. Default: Insert.
	Strategy Strategy
	// Schema and Table name the ledger as the catalog has them. Default: no schema, so the search_path decides, and
	// "processed_events".
	Schema, Table string
	// Isolation of the transaction. Default: the database's own.
	Isolation sql.IsolationLevel
	// Attempts is how often the transaction is run in all when Postgres ends it with a serialization failure or a deadlock. Default: 5.
	Attempts int
	// RetryFor limits the time since the first attempt in which another one begins. Default: 10s.
	RetryFor time.Duration
	// Metrics counts what happens; one may serve several inboxes. Default: none.
	Metrics *Metrics
}

const (
	maxIdentifier = 63 // NAMEDATALEN - 1: Postgres would cut a longer name silently (docs 4.1.1)
	maxConsumer   = 255
	maxEventID    = 512
	maxSource     = 512
)

func (o Options) withDefaults() (Options, error) {
	if o.Strategy == "" {
		o.Strategy = Insert
	}
	if o.Table == "" {
		o.Table = "processed_events"
	}
	if o.Attempts == 0 {
		o.Attempts = 5
	}
	if o.RetryFor == 0 {
		o.RetryFor = 10 * time.Second
	}
	if o.Strategy != Insert && o.Strategy != Advisory {
		return o, fmt.Errorf("inbox: the strategy %q is neither %s nor %s", o.Strategy, Insert, Advisory)
	}
	if o.Attempts < 0 || o.RetryFor < 0 {
		return o, errors.New("inbox: Attempts and RetryFor can't be negative")
	}
	if _, ok := isolation[o.Isolation]; !ok {
		return o, fmt.Errorf("inbox: Postgres has no isolation level %s", o.Isolation)
	}
	for _, name := range []string{o.Schema, o.Table} {
		if strings.ContainsRune(name, 0) || len(name) > maxIdentifier {
			return o, fmt.Errorf("inbox: the name %q is longer than %d bytes or holds a NUL character", name, maxIdentifier)
		}
	}
	return o, nil
}

func (o Options) table() string {
	if o.Schema == "" {
		return pgx.Identifier{o.Table}.Sanitize()
	}
	return pgx.Identifier{o.Schema, o.Table}.Sanitize()
}

var isolation = map[sql.IsolationLevel]pgx.TxIsoLevel{
	sql.LevelDefault:        "",
	sql.LevelReadCommitted:  pgx.ReadCommitted,
	sql.LevelRepeatableRead: pgx.RepeatableRead,
	sql.LevelSerializable:   pgx.Serializable,
}
