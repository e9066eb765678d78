package inbox

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Strategy selects how an event is claimed. The package comment describes when to use which.
type Strategy string

const (
	Insert   Strategy = "insert"   // a concurrent delivery waits for the first
	Advisory Strategy = "advisory" // a concurrent delivery gets ErrContended at once
)

// Options of an Inbox.
type Options struct {
	// Consumer names the service that handles the events, or a part of it if several parts handle the same events. Each
	// name handles each event once. Under a changed name every event is handled again. At most 255 bytes. Required.
	Consumer string
	// Strategy of claiming. Default: Insert.
	Strategy Strategy
	// Schema and Table name the ledger as the catalog stores the names. Default: no schema, so that the search_path
	// decides, and "processed_events".
	Schema, Table string
	// Isolation of the transaction. Default: the database's own.
	Isolation sql.IsolationLevel
	// Attempts is how often the transaction is run in total if Postgres ends it with a serialization failure or a
	// deadlock. Default: 5.
	Attempts int
	// RetryFor is the time after the first attempt in which another attempt may begin. Default: 10s.
	RetryFor time.Duration
	// Metrics counts the outcomes. Several inboxes may share it. Default: none.
	Metrics *Metrics
}

const (
	maxIdentifier = 63 // NAMEDATALEN - 1: Postgres would silently truncate a longer name (docs 4.1.1)
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
		return o, errors.New("inbox: Attempts and RetryFor must not be negative")
	}
	if _, ok := isolation[o.Isolation]; !ok {
		return o, fmt.Errorf("inbox: Postgres has no isolation level %s", o.Isolation)
	}
	for _, name := range []string{o.Schema, o.Table} {
		if strings.ContainsRune(name, 0) || len(name) > maxIdentifier {
			return o, fmt.Errorf("inbox: the name %q is longer than %d bytes or contains a NUL character",
				name, maxIdentifier)
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
